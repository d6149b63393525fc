/** A field for code, with the numbers of its lines. */
import { useRef, useState } from "preact/hooks";
import { draftTexts, dropDrafts } from "../draft.ts";
import { Card } from "./bits.tsx";
import { Field } from "./form.tsx";

export function Editor({
  label,
  value,
  faultyLine,
  onInput,
}: {
  label: string;
  value: string;
  faultyLine: number | null;
  onInput(value: string): void;
}) {
  const numbers = useRef<HTMLPreElement>(null);
  const lines = value.split("\n").length;
  return (
    <div class="editor">
      <pre ref={numbers} aria-hidden="true">
        {Array.from({ length: lines }, (_, n) =>
          n + 1 === faultyLine ? <mark key={n}>{`${n + 1}\n`}</mark> : `${n + 1}\n`,
        )}
      </pre>
      <textarea
        aria-label={label}
        spellcheck={false}
        value={value}
        wrap="off"
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
        onScroll={({ currentTarget }) => {
          if (numbers.current) numbers.current.scrollTop = currentTarget.scrollTop;
        }}
      />
    </div>
  );
}

/** In the card of its editor, which gets the focus: the button goes away with what was changed. */
export function Discard({ onDiscard }: { onDiscard(): void }) {
  return (
    <button
      type="button"
      onClick={({ currentTarget }) => {
        currentTarget.closest(".card")?.querySelector("textarea")?.focus();
        onDiscard();
      }}
    >
      Discard changes
    </button>
  );
}

/** `href`: of what they have saved. */
export function Overtaken({ href }: { href: string }) {
  return (
    <p class="banner warn">
      Somebody else has saved another version meanwhile. Saving yours replaces it.{" "}
      <a href={href}>See what they saved</a>
    </p>
  );
}

/** What is thrown instead of saving. By then `Overtaken` tells the rest. */
export function unseen(): Error {
  return new Error("Nothing was saved: somebody else has saved another version since this page read it.");
}

/** What was typed of something that is gone: it can be copied, and is asked about until it is discarded. */
export function Leftover({ keys }: { keys: readonly string[] }) {
  const [, draw] = useState({});
  const texts = draftTexts(...keys);
  if (texts.length === 0) return null;
  const discard = () => {
    dropDrafts(...keys);
    draw({});
  };
  return (
    <Card title="Not saved" actions={<Discard onDiscard={discard} />}>
      <Field label="What was typed and not saved">
        {(id) => <textarea id={id} rows={14} readOnly spellcheck={false} value={texts.join("\n\n")} />}
      </Field>
    </Card>
  );
}

export function JsonField({
  label,
  name,
  value,
  onInput,
}: {
  label: string;
  name?: string;
  value: string;
  onInput?(value: string): void;
}) {
  return (
    <Field label={label} hint="As JSON.">
      {(id) => (
        <textarea
          id={id}
          name={name}
          rows={5}
          spellcheck={false}
          {...(onInput ? { value } : { defaultValue: value })}
          onInput={({ currentTarget }) => onInput?.(currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** What the field with this label holds as JSON. */
export function objectIn(label: string, text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (fault) {
    throw new Error(`The field “${label}” is not valid JSON: ${(fault as Error).message}.`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Error(`The field “${label}” must be a JSON object, in braces.`);
  return value;
}

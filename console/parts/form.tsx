/** Forms: labelled fields, one button that says what it does, refusals in the server's words. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { holdDialog } from "../draft.ts";
import { useAction } from "../hooks.ts";
import { useConsole } from "../session.ts";
import { Refusal } from "./bits.tsx";

export function Field({
  label,
  hint,
  children,
}: {
  label: string;
  hint?: ComponentChildren;
  children(id: string): ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <p class="hint">{hint}</p>}
    </div>
  );
}

type TextProps = {
  label: string;
  name: string;
  hint?: ComponentChildren;
  value?: string;
  type?: "text" | "email" | "password" | "number" | "url" | "datetime-local";
  placeholder?: string;
  isOptional?: boolean;
  autoComplete?: string;
  onInput?(value: string): void;
};

/** Beside fields for times. */
export const OWN_TIME = "Times are those of this device.";
/** Without it browsers let somebody type years of six digits, which are no time to the API. */
const LAST_MINUTE = "9999-12-31T23:59";

/**
 * What is typed stays when the screen is drawn anew; only with `onInput` does `value` decide what the field
 * holds.
 */
export function Text({
  label,
  name,
  hint,
  value,
  isOptional,
  onInput,
  type = "text",
  autoComplete = "off",
  ...rest
}: TextProps) {
  return (
    <Field label={label} hint={hint}>
      {(id) => (
        <input
          {...rest}
          {...(onInput ? { value } : { defaultValue: value })}
          {...{ id, name, autoComplete }}
          // Preact types each kind of field by itself
          type={type as "text"}
          step={type === "number" ? "any" : undefined}
          max={type === "datetime-local" ? LAST_MINUTE : undefined}
          required={!isOptional}
          onInput={({ currentTarget }) => onInput?.(currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function Area({
  label,
  name,
  hint,
  value,
  rows = 6,
  isOptional,
}: {
  label: string;
  name: string;
  hint?: ComponentChildren;
  value?: string;
  rows?: number;
  isOptional?: boolean;
}) {
  return (
    <Field label={label} hint={hint}>
      {(id) => (
        <textarea
          id={id}
          name={name}
          rows={rows}
          required={!isOptional}
          spellcheck={false}
          defaultValue={value}
        />
      )}
    </Field>
  );
}

export type Option = { value: string; name: string };

export function Choice({
  label,
  name,
  hint,
  options,
  value,
  onChange,
}: {
  label: string;
  name: string;
  hint?: ComponentChildren;
  options: readonly Option[];
  value?: string;
  onChange?(value: string): void;
}) {
  const [first] = useState(value);
  return (
    <Field label={label} hint={hint}>
      {(id) => (
        <select
          id={id}
          name={name}
          value={value}
          data-first={first}
          onChange={({ currentTarget }) => onChange?.(currentTarget.value)}
        >
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check({
  label,
  name,
  isChecked = false,
  value,
  onChange,
}: {
  label: string;
  name: string;
  isChecked?: boolean;
  value?: string;
  onChange?(isChecked: boolean): void;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        name={name}
        value={value}
        defaultChecked={isChecked}
        onChange={({ currentTarget }) => onChange?.(currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  );
}

/** `onSubmit` gets what the fields hold by their names. */
export function Form({
  button,
  onSubmit,
  children,
  isDanger = false,
  secondary,
}: {
  button: string;
  onSubmit(fields: FormData): Promise<unknown>;
  children?: ComponentChildren;
  isDanger?: boolean;
  secondary?(isBusy: boolean): ComponentChildren;
}) {
  const { run, isBusy, error } = useAction(onSubmit);
  return (
    <form
      class="form"
      aria-busy={isBusy}
      onSubmit={(event) => {
        event.preventDefault();
        void run(new FormData(event.currentTarget));
      }}
    >
      {children}
      <Refusal error={error} />
      <div class="buttons">
        <button type="submit" class={isDanger ? "danger" : "primary"} disabled={isBusy}>
          {button}
        </button>
        {secondary?.(isBusy)}
      </div>
    </form>
  );
}

export function textOf(fields: FormData, name: string): string {
  return String(fields.get(name) ?? "").trim();
}

/** undefined when left empty. */
export function maybe(fields: FormData, name: string): string | undefined {
  return textOf(fields, name) || undefined;
}

/** Who had the focus before a dialog that another one has just replaced. */
let openedBy: HTMLElement | null = null;

/** What is asked before a dialog closes that holds something. */
export type Loss = { title: string; button: string; words: string };
const CHANGES_LOST: Loss = {
  title: "Discard your changes?",
  button: "Discard",
  words: "They are not saved.",
};

export function Dialog({
  title,
  onClose,
  loss = null,
  children,
}: {
  title: string;
  onClose(): void;
  /** Of what it shows. Without it only changed fields are asked about. */
  loss?: Loss | null;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const { isAway } = useConsole();
  useFocusBefore();
  // what a form is answered may be shown only once, such as a key
  const isBusy = () => dialog.current?.querySelector("form[aria-busy=true]") != null;
  const touched = useRef(new Set<EventTarget | null>());
  const [isAsked, ask] = useState(false);
  const isLost = () =>
    loss !== null || [...touched.current].some((field) => isChanged(field, dialog.current));
  /** Whether it stays, for now. */
  const isKept = () => {
    const isStaying = isLost();
    if (isStaying && !isBusy()) ask(true);
    return isStaying || isBusy();
  };
  useLayoutEffect(() => {
    if (isAway) {
      // one that is open would take the keyboard from the sign-in, although nobody sees it
      ask(false);
      dialog.current?.close();
      return;
    }
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLElement>("form input, form select, form textarea, input")?.focus();
  }, [isAway]);
  useEffect(() => holdDialog({ isHeld: () => isLost() || isBusy(), ask: isKept }), []);
  const cancel = (event: Event) => {
    if (isKept()) event.preventDefault();
    else onClose();
  };
  // a browser lets a page cancel one Escape only, and closes the dialog at the next
  const closed = () => {
    if (isAway) return;
    if (isKept()) dialog.current?.showModal();
    else onClose();
  };
  const { title: question, button, words } = loss ?? CHANGES_LOST;
  return (
    <>
      <dialog
        ref={dialog}
        aria-labelledby={id}
        onCancel={cancel}
        onClose={closed}
        onInput={({ target }) => void touched.current.add(target)}
      >
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" class="plain" aria-label="Close" onClick={cancel}>
            ×
          </button>
        </header>
        {children}
      </dialog>
      {isAsked && (
        <Confirm
          title={question}
          button={button}
          onConfirm={async () => onClose()}
          onClose={() => ask(false)}
        >
          {words}
        </Confirm>
      )}
    </>
  );
}

/** Whoever had the focus before a dialog has it again after. */
function useFocusBefore(): void {
  useLayoutEffect(() => {
    const before = openedBy ?? (document.activeElement as HTMLElement | null);
    openedBy = null;
    // to close it would tell `onClose`, also when another dialog takes its place
    return () => {
      openedBy ??= before; // a dialog on top of this one goes after it
      // nothing outside takes the focus while the dialog is there, as it still is now
      queueMicrotask(() => {
        openedBy?.focus();
        openedBy = null;
      });
    };
  }, []);
}

/** By somebody, in a field that is still there: a dialog may show something else by now. */
function isChanged(field: EventTarget | null, dialog: HTMLElement | null): boolean {
  if (!(field instanceof Node && dialog?.contains(field))) return false;
  if (field instanceof HTMLSelectElement)
    return field.value !== (field.dataset.first ?? field.options[0]?.value);
  if (field instanceof HTMLInputElement && field.type === "checkbox")
    return field.checked !== field.defaultChecked;
  const isText = field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement;
  return isText && field.value !== field.defaultValue;
}

/** Asks before something that cannot be taken back, and says what will happen. */
export function Confirm({
  title,
  button,
  children,
  onConfirm,
  onClose,
}: {
  title: string;
  button: string;
  children: ComponentChildren;
  onConfirm(): Promise<unknown>;
  onClose(): void;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        button={button}
        isDanger
        onSubmit={async () => {
          await onConfirm();
          onClose();
        }}
        secondary={(isBusy) => (
          <button type="button" disabled={isBusy} onClick={onClose}>
            Go back
          </button>
        )}
      >
        <div>{children}</div>
      </Form>
    </Dialog>
  );
}

/** A key that is held down would press a button again with each answer, and send a form again that stays. */
export function pressOnce(): void {
  addEventListener("keydown", (event) => {
    const isPress = event.target instanceof HTMLButtonElement || event.target instanceof HTMLInputElement;
    if (event.repeat && event.key === "Enter" && isPress) event.preventDefault();
  });
}

/** A button whose refusal shows beside it. */
export function Do({
  name,
  act,
  isPrimary = false,
  isOff = false,
}: {
  name: string;
  act(): Promise<unknown>;
  isPrimary?: boolean;
  isOff?: boolean;
}) {
  const { run, isBusy, error } = useAction(act);
  return (
    <>
      <button
        type="button"
        class={isPrimary ? "primary" : undefined}
        disabled={isBusy || isOff}
        onClick={() => void run()}
      >
        {name}
      </button>
      <Refusal error={error} />
    </>
  );
}

/** A secret that the server tells once: it is shown until somebody says that they have it. */
import { Code, Copy } from "./bits.tsx";
import { Dialog, Field } from "./form.tsx";

const LOSS = { title: "Close without storing it?", button: "Close" };
const LOST = "Nobody can see it afterwards, not even you.";

export type Secret = {
  title: string;
  /** Of the field that has it. */
  label: string;
  /** "key": what it is called. */
  noun: string;
  secret: string;
  /** What else there is to know of it. */
  words?: string;
  /** Where it is afterwards. */
  elsewhere?: string;
  /** A command to try it with. */
  trial?: string;
};

export function ShownOnce({
  title,
  label,
  noun,
  secret,
  words,
  elsewhere = LOST,
  trial,
  onClose,
}: Secret & { onClose(): void }) {
  return (
    <Dialog title={title} loss={{ ...LOSS, words: elsewhere }} onClose={onClose}>
      <p>
        <strong>Copy it now.</strong> It is not shown again. {words}
      </p>
      <Field label={label}>
        {(id) => (
          <input
            id={id}
            class="secret"
            readOnly
            value={secret}
            onFocus={({ currentTarget }) => currentTarget.select()}
          />
        )}
      </Field>
      <div class="buttons">
        <Copy name={`Copy the ${noun}`} text={secret} />
        <button type="button" class="primary" onClick={onClose}>
          I have stored it
        </button>
      </div>
      {trial && (
        <>
          <p class="muted">Try it:</p>
          <Code label="A command that sends an e-mail" text={trial} />
        </>
      )}
    </Dialog>
  );
}

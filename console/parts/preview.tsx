/**
 * HTML of somebody else. The server sends it without script and without remote content, under a policy of its
 * own; the sandbox takes scripts, forms and navigation from it once more.
 */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { linkOf } from "../call.ts";
import { useConsole } from "../session.ts";
import { Check } from "./form.tsx";

export function Preview({ path, title }: { path: string; title: string }) {
  const whose = useConsole();
  const [hasImages, setImages] = useState(false);
  return (
    <PreviewFrame src={linkOf(whose, path, { images: hasImages ? "true" : null })} title={title}>
      <Check label="Load remote images" name="images" onChange={setImages} />
    </PreviewFrame>
  );
}

export function PreviewFrame({
  src,
  title,
  children,
}: {
  src: string;
  title: string;
  children?: ComponentChildren;
}) {
  const [isPhone, setPhone] = useState(false);
  return (
    <div class="preview">
      <div class="bar">
        <fieldset class="segments">
          <legend class="unseen">Width</legend>
          <button type="button" aria-pressed={!isPhone} onClick={() => setPhone(false)}>
            Desktop
          </button>
          <button type="button" aria-pressed={isPhone} onClick={() => setPhone(true)}>
            Phone
          </button>
        </fieldset>
        {children}
      </div>
      <iframe
        key={src}
        class={isPhone ? "phone" : "desktop"}
        src={src}
        title={title}
        sandbox=""
        referrerpolicy="no-referrer"
      />
    </div>
  );
}

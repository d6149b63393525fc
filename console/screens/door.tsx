import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The page of those who are not in yet. */
export function Door({ title, children }: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Postrider`;
  }, [title]);
  return (
    <main class="door">
      <div class="door-brand">Postrider</div>
      <section class="card">
        <h1>{title}</h1>
        {children}
      </section>
    </main>
  );
}

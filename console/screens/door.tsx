import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The page of those who are not in yet. */
export function Door({ title, children }: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    const before = document.title;
    document.title = `${title} · Postrider`;
    return () => {
      document.title = before; // of a page that has waited behind it
    };
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

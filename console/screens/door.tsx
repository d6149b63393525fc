import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** The page of those who are not in yet. */
export function Door({ title, children }: { title: string; children: ComponentChildren }) {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    // what had it may be hidden now
    if (document.activeElement === document.body) card.current?.querySelector("input")?.focus();
  }, []);
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
      <section class="card" ref={card}>
        <h1>{title}</h1>
        {children}
      </section>
    </main>
  );
}

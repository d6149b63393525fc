/** Templates for tests: compiled and rendered piece by piece, or to their end at once. */
import { type Compiled, compile, type Source } from "../../src/template/compile.ts";
import { RenderBudget, type RenderedEmail, renderInPieces } from "../../src/template/render.ts";

const BLANK: Source = { subject: null, html: "", text: null, from: null, replyTo: [], declared: [] };

export function compiled(source: Partial<Source>): Compiled {
  return compile({ ...BLANK, ...source });
}

/** The engine has a turn of its event loop for compiling, and one for each piece of rendering. */
export function* compileAndRender(
  source: Partial<Source>,
  variables: Record<string, unknown>,
): Generator<void, RenderedEmail> {
  const version = compiled(source);
  yield;
  return yield* renderInPieces(version, variables, new RenderBudget(0));
}

export function atOnce<T>(pieces: Generator<void, T>): T {
  for (;;) {
    const { done, value } = pieces.next();
    if (done) return value;
  }
}

/**
 * Finds unknown fields of a send that look like a known one with a letter or two wrong, for the `warnings` of the
 * answer. They are ignored like every unknown field. The cost is bounded: each name is compared once, and a request has
 * a limit.
 */
import type { TSchema } from "typebox";
import type { Json } from "./json.ts";

export type Warning = { path: string; message: string };

const WARNINGS_MAX = 10;
const COMPARED_MAX = 200;
/** Other names are not compared, and an answer does not repeat them. */
const NAME = /^[\w-]{1,24}$/;
const WRONG_LETTERS_MAX = 2;

type FieldSchema = { properties?: Record<string, TSchema>; items?: TSchema };

/** Finds the known name that each unknown one was probably meant to be. */
export class Spelling {
  readonly #known: readonly string[];
  readonly #nearest = new Map<string, string | null>();

  constructor(known: readonly string[]) {
    this.#known = known;
  }

  isKnown(name: string): boolean {
    return this.#known.includes(name);
  }

  /** null: it is like none of them. */
  nearest(name: string): string | null {
    if (!NAME.test(name)) return null;
    const before = this.#nearest.get(name);
    if (before !== undefined) return before;
    if (this.#nearest.size >= COMPARED_MAX) return null;
    const found = nearestOf(name, this.#known);
    this.#nearest.set(name, found);
    return found;
  }
}

/** Of the e-mails of one request. */
export class Misspelt {
  readonly warnings: Warning[] = [];
  readonly #alsoRead: readonly string[];
  readonly #spellings = new Map<FieldSchema, Spelling>();

  /** Those fields are read besides the ones that the schema names. */
  constructor(alsoRead: readonly string[]) {
    this.#alsoRead = alsoRead;
  }

  /** `at` stands before the path of every field: `[3].`, or nothing. */
  look(value: Json | undefined, schema: TSchema, at: string): void {
    const { properties, items } = schema as FieldSchema;
    if (Array.isArray(value)) {
      if (items) for (const [n, item] of value.entries()) this.look(item, items, `${at.slice(0, -1)}[${n}].`);
      return;
    }
    if (!properties || value === null || typeof value !== "object") return;
    for (const name in value) {
      if (this.warnings.length >= WARNINGS_MAX) return;
      const below = Object.hasOwn(properties, name) ? properties[name] : undefined;
      if (below && typeof value[name] === "object") this.look(value[name], below, `${at}${name}.`);
      else if (!below) this.#spell(name, this.#spellingOf(schema as FieldSchema), at);
    }
  }

  #spell(name: string, spelling: Spelling, at: string): void {
    const meant = spelling.isKnown(name) ? null : spelling.nearest(name);
    if (meant === null) return;
    const message = `The \`${at}${name}\` field is not known and is ignored. Did you mean \`${meant}\`?`;
    this.warnings.push({ path: `${at}${name}`, message });
  }

  #spellingOf(schema: FieldSchema): Spelling {
    const known = this.#spellings.get(schema);
    if (known) return known;
    const spelling = new Spelling([...Object.keys(schema.properties ?? {}), ...this.#alsoRead]);
    this.#spellings.set(schema, spelling);
    return spelling;
  }
}

function nearestOf(name: string, known: readonly string[]): string | null {
  const letters = lettersOf(name);
  let nearest: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const one of known) {
    const theirs = lettersOf(one);
    // the shorter the name, the less of it may be wrong
    const allowed = Math.min(WRONG_LETTERS_MAX, Math.floor((theirs.length + 1) / 3));
    if (Math.abs(theirs.length - letters.length) > allowed) continue;
    const wrong = wrongLetters(letters, theirs);
    if (wrong > allowed || wrong >= least) continue;
    nearest = one;
    least = wrong;
  }
  return nearest;
}

/** `replyTo` and `Reply-To` are `reply_to` in another style. */
function lettersOf(name: string): string {
  return name.toLowerCase().replace(/[_-]/g, "");
}

/** How many letters to add, drop, change or swap with the next to make one word the other. */
function wrongLetters(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        (last[j] as number) + 1,
        (row[j - 1] as number) + 1,
        (last[j - 1] as number) + (isSame ? 0 : 1),
        isSwapped ? (beforeLast[j - 2] as number) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] as number;
}

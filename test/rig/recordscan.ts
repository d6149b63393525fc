/**
 * What the functions of src/record write, as far as their text shows it: which tables each one locks rows of,
 * itself or through the functions that it calls.
 */
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";

const RECORD = new URL("../../src/record/", import.meta.url);

/** A function, class or constant at the top level of a file. */
type Declaration = { name: string; isExported: boolean; text: string; tables: ReadonlySet<string> };
type File = { declarations: Map<string, Declaration>; imports: Map<string, string> };

export class RecordScan {
  readonly #files: Map<string, File>;

  constructor() {
    const names = readdirSync(RECORD, { recursive: true, encoding: "utf8" }).filter((name) =>
      name.endsWith(".ts"),
    );
    this.#files = new Map(
      names.map((name) => [name, read(name, readFileSync(new URL(name, RECORD), "utf8"))]),
    );
  }

  /** Every exported function that locks rows, as `mail/file.ts name`. */
  get writers(): string[] {
    return [...this.#files].flatMap(([file, { declarations }]) =>
      [...declarations.values()]
        .filter(({ name, isExported }) => isExported && this.tablesOf([`${file} ${name}`]).size > 0)
        .map(({ name }) => `${file} ${name}`),
    );
  }

  /** These functions of `mail/file.ts name`, and every one that they lead to. */
  reachedFrom(names: readonly string[]): Set<string> {
    const reached = new Set<string>();
    const visit = (name: string): void => {
      if (reached.has(name)) return;
      const declaration = this.#find(name);
      if (!declaration) throw new Error(`src/record has no \`${name}\``);
      reached.add(name);
      for (const next of this.#namedIn(name, declaration)) visit(next);
    };
    names.forEach(visit);
    return reached;
  }

  /** The tables of which these functions lock rows. */
  tablesOf(names: readonly string[]): Set<string> {
    return new Set([...this.reachedFrom(names)].flatMap((name) => [...(this.#find(name)?.tables ?? [])]));
  }

  #find(name: string): Declaration | undefined {
    const [file, declared] = name.split(" ") as [string, string];
    return this.#files.get(file)?.declarations.get(declared);
  }

  #namedIn(name: string, { text }: Declaration): string[] {
    const [file] = name.split(" ") as [string];
    const { declarations, imports } = this.#files.get(file) as File;
    const words = new Set(text.replace(/"[^"\n]*"/g, "").match(/\b[A-Za-z_]\w*\b/g));
    return [...words].flatMap((word) => {
      const home = declarations.has(word) ? file : imports.get(word);
      return home && this.#find(`${home} ${word}`) ? [`${home} ${word}`] : [];
    });
  }
}

function read(path: string, source: string): File {
  const text = source.replace(/^\s*\/\*[\s\S]*?\*\//gm, "").replace(/(^|\s)\/\/ .*$/gm, "");
  const starts = [...text.matchAll(/^(export )?(?:async )?(?:function|class|const) (\w+)/gm)];
  const declarations = starts.map((start, n): Declaration => {
    const body = text.slice(start.index, starts[n + 1]?.index);
    return {
      name: start[2] as string,
      isExported: start[1] !== undefined,
      text: body,
      tables: tablesIn(body),
    };
  });
  const imports = [...text.matchAll(/^import (?:type )?\{([^}]*)\} from "(\.[\w./]+)"/gm)].flatMap(
    ([, names, file]) =>
      (names as string)
        .split(",")
        .map(
          (name) =>
            [name.replace("type ", "").trim(), posix.join(posix.dirname(path), file as string)] as const,
        ),
  );
  return { declarations: new Map(declarations.map((one) => [one.name, one])), imports: new Map(imports) };
}

function tablesIn(text: string): Set<string> {
  return new Set(locksIn(text).map(({ table }) => table));
}

/**
 * `waits`: when somebody else has locked the rows. Nobody has rows that are only now inserted. `isAll`: of a
 * `for update`.
 */
export type Lock = { table: string; waits: boolean; isFresh: boolean; isAll: boolean };

const LOCKING = new RegExp(
  [
    /\binsert into (?<inserted>\w+)/,
    /\bdelete from (?<deleted>\w+)/,
    /(?<!\b(?:for|do|key) )\bupdate (?<updated>\w+)(?= (?:\w+ )?set\b)/,
    /\bfor (?:no key update|update|key share|share)\b(?: of (?<alias>\w+))?/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);

/** The tables of which statements lock rows, in the order in which the text names them. */
export function locksIn(source: string): Lock[] {
  const text = source.replace(/\s+/g, " ");
  const found = [...text.matchAll(LOCKING)];
  return found.map(({ groups = {}, index }, n) => {
    const { inserted, deleted, updated, alias } = groups;
    const rest = text.slice(index, found[n + 1]?.index);
    const isFresh = inserted !== undefined && !/\bon conflict\b/.test(rest);
    const table = inserted ?? deleted ?? updated ?? selectedIn(text.slice(0, index), alias);
    const isAll = (inserted ?? deleted ?? updated) === undefined;
    return { table, waits: !isFresh && !/^for [a-z ]*skip locked\b/.test(rest), isFresh, isAll };
  });
}

/**
 * The table that a `for update` at the end of this text is about: one of its own select, not of a select
 * inside that.
 */
function selectedIn(text: string, alias: string | undefined): string {
  const named = [...text.matchAll(/\b(?:from|join) (\w+)(?: (?:as )?(\w+))?/g)].reverse();
  const match = named.find(({ 1: table, 2: as, index }) =>
    alias === undefined ? isOpen(text.slice(index)) && table !== "unnest" : as === alias || table === alias,
  );
  if (!match) throw new Error(`which table does this lock? ${text.slice(-200)}`);
  return match[1] as string;
}

/** Whether no bracket that was opened before this text is closed in it. */
function isOpen(text: string): boolean {
  let depth = 0;
  for (const [bracket] of text.matchAll(/[()]/g)) {
    depth += bracket === "(" ? 1 : -1;
    if (depth < 0) return false;
  }
  return true;
}

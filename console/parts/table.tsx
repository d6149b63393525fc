/** A table that is easy to scan. On narrow screens columns marked `wide` are left out. */
import type { ComponentChildren } from "preact";
import { count } from "../words.ts";
import { Time } from "./bits.tsx";

/** What is only in the export. */
export function hidden<T>(name: string, csv: NonNullable<Column<T>["csv"]>): Column<T> {
  return { name, cell: () => null, csv };
}

export type Column<T> = {
  name: string;
  cell(row: T): ComponentChildren;
  /** For the export; without it the column is only on the screen. */
  csv?(row: T): string | number | null | undefined;
  wide?: boolean;
  /** Takes what room is left, and cuts its text there. */
  shrinks?: boolean;
  numeric?: boolean;
  /** For what is not read, such as buttons. */
  unnamed?: boolean;
};

/** A count: as people read it on the screen, and bare in the export. */
export function numberColumn<T>(name: string, of: (row: T) => number, isWide = false): Column<T> {
  return { name, numeric: true, wide: isWide, cell: (row) => count(of(row)), csv: of };
}

/** A moment: how long ago on the screen, and in full in the export. */
export function timeColumn<T>(name: string, of: (row: T) => string | null, isWide = false): Column<T> {
  return { name, numeric: true, wide: isWide, cell: (row) => <Time at={of(row)} />, csv: of };
}

export function Table<T>({
  label,
  columns,
  rows,
  keyOf,
  isNew,
}: {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf(row: T): string;
  isNew?(row: T): boolean;
}) {
  const classOf = ({ wide, numeric, shrinks }: Column<T>) =>
    [wide && "wide", numeric && "numeric", shrinks && "shrinks"].filter(Boolean).join(" ") || undefined;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section class="table" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classOf(column)}>
                {column.unnamed ? <span class="unseen">{column.name}</span> : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={isNew?.(row) ? "new" : undefined}>
              {columns.map((column) => (
                <td key={column.name} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

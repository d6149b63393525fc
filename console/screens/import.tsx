import { call } from "../call.ts";
import { useGet, useReadingEvery } from "../hooks.ts";
import { Badge, Card, Code, Refusal, Screen } from "../parts/bits.tsx";
import { Field, Form, maybe, Text } from "../parts/form.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, numberColumn } from "../parts/table.tsx";
import { BASE, refine, usePlace } from "../place.ts";
import type { AudienceItem } from "../shapes.ts";
import { bytes, count, type Tone } from "../words.ts";

type Rejected = { row: number; reason: string };
type Import = {
  id: string;
  state: "running" | "done" | "failed";
  rows: number;
  done: number;
  imported: number;
  skipped: number;
  rejected: Rejected[];
  /** Why it failed. */
  reason: string | null;
};

const LOOK_MS = 700;
const FILE_BYTES_MAX = 4 * 1024 * 1024;
const TITLES = { running: "Importing", done: "Imported", failed: "The import has failed" };
const TONES: Record<Import["state"], Tone> = { running: "calm", done: "good", failed: "bad" };
const EXAMPLE = `email,first_name,last_name,tags
ada@example.com,Ada,Lovelace,customer
grace@example.com,Grace,Hopper,customer`;

export function ImportScreen({ id }: { id: string }) {
  const { data: audience } = useGet<AudienceItem>(`v1/audiences/${id}`);
  const { query } = usePlace();
  const running = query.get("import");
  const start = async (fields: FormData) => {
    const csv = await textIn(fields.get("file") as File);
    const begun = await call<{ id: string }>("POST", "contacts/import", {
      ...{ audience_id: id, csv },
      consent: maybe(fields, "consent"),
    });
    refine({ import: begun.id });
  };
  return (
    <Screen
      title="Import contacts"
      intro={audience && `Into ${audience.name}.`}
      back={{ href: `${BASE}/audiences/${id}`, name: audience?.name ?? "Audience" }}
    >
      {running && <Progress key={running} id={running} />}
      <Card title={running ? "Import another file" : "Choose a file"}>
        <Form button="Import" onSubmit={start}>
          <Field
            label="CSV file"
            hint="Up to 4 MB, with commas between the cells. Its first row names the columns. Only the column email is needed."
          >
            {(field) => <input id={field} name="file" type="file" accept=".csv,text/csv" required />}
          </Field>
          <Text
            label="Where they agreed"
            name="consent"
            isOptional
            placeholder="checkout of the shop"
            hint="Kept with each contact as its consent."
          />
        </Form>
        <Code label="An example of a file" text={EXAMPLE} />
      </Card>
    </Screen>
  );
}

/** In words before it is sent: what replaces letters that cannot be read would be imported in their place. */
async function textIn(file: File): Promise<string> {
  if (file.size > FILE_BYTES_MAX)
    throw new Error(
      `The file has ${bytes(file.size)}, and an import takes up to ${bytes(FILE_BYTES_MAX)}. Split it, and import each part: every part needs the row with the names of the columns.`,
    );
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(
      "The file is not UTF-8, so its letters would not arrive as they are. Save it as “CSV UTF-8”, as Excel calls it, and import that.",
    );
  }
}

const REJECTED_FILTERS: readonly RowFilter<Rejected>[] = [
  {
    name: "rejected",
    label: "Find",
    holds: ({ row, reason }, value) => isIn(value, reason) || String(row) === value,
  },
];
const REJECTED_COLUMNS: readonly Column<Rejected>[] = [
  numberColumn("Row", ({ row }) => row),
  { name: "Why", cell: ({ reason }) => reason, csv: ({ reason }) => reason },
];

function Progress({ id }: { id: string }) {
  const { data, error, reload } = useGet<Import>(`contacts/import/${encodeURIComponent(id)}`);
  useReadingEvery(data?.state === "running" ? LOOK_MS : null, reload);
  if (!data) return <Refusal error={error} />;
  const { rejected, rows, done, imported, skipped, state, reason } = data;
  return (
    <Card title={TITLES[state]}>
      <Refusal error={error ?? reason} />
      <p role="status">
        <Badge state={state} tone={TONES[state]} /> {count(done)} of {count(rows)} rows: {count(imported)}{" "}
        imported, {count(skipped)} rejected
      </p>
      <progress max={Math.max(1, rows)} value={done} aria-label="Rows imported" />
      {skipped > rejected.length && (
        <p class="muted">The first {count(rejected.length)} rejected rows are kept.</p>
      )}
      {rejected.length > 0 && (
        <ShortList
          label="rejected rows"
          filters={REJECTED_FILTERS}
          rows={rejected}
          keyOf={({ row }) => String(row)}
          columns={REJECTED_COLUMNS}
        />
      )}
    </Card>
  );
}

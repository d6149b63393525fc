import { useEffect, useState } from "preact/hooks";
import { call } from "../call.ts";
import { csvOf, saveFile } from "../csv.ts";
import { useGet } from "../hooks.ts";
import { Badge, Card, Code, Refusal, Screen } from "../parts/bits.tsx";
import { Field, Form } from "../parts/form.tsx";
import { Table } from "../parts/table.tsx";
import { BASE, refine, usePlace } from "../place.ts";
import type { AudienceItem } from "../shapes.ts";
import { count } from "../words.ts";

type Rejected = { row: number; reason: string };
type Import = { id: string; state: string; rows: number; done: number; rejected: Rejected[] };

const LOOK_MS = 700;
const SHOWN_MAX = 100;
const EXAMPLE = `email,first_name,last_name,tags
ada@example.com,Ada,Lovelace,customer
grace@example.com,Grace,Hopper,customer`;

export function ImportScreen({ id }: { id: string }) {
  const { data: audience } = useGet<AudienceItem>(`v1/audiences/${id}`);
  const { query } = usePlace();
  const running = query.get("import");
  const start = async (fields: FormData) => {
    const csv = await (fields.get("file") as File).text();
    const begun = await call<{ id: string }>("POST", "contacts/import", { audience_id: id, csv });
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
          <Field label="CSV file" hint="Its first row names the columns. Only the column email is needed.">
            {(field) => <input id={field} name="file" type="file" accept=".csv,text/csv" required />}
          </Field>
        </Form>
        <Code label="An example of a file" text={EXAMPLE} />
      </Card>
    </Screen>
  );
}

function Progress({ id }: { id: string }) {
  const { data, error, reload } = useGet<Import>(`contacts/import/${id}`);
  const [, look] = useState(0);
  const isRunning =
    data !== null && data.done < data.rows && data.state !== "done" && data.state !== "failed";
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => void reload().then(() => look((n) => n + 1)), LOOK_MS);
    return () => clearInterval(timer);
  }, [isRunning, reload]);
  if (!data) return <Refusal error={error} />;
  const { rejected, rows, done, state } = data;
  const save = () =>
    saveFile(
      "rejected.csv",
      "text/csv",
      csvOf([["row", "reason"], ...rejected.map(({ row, reason }) => [row, reason])]),
    );
  return (
    <Card
      title={isRunning ? "Importing" : "Imported"}
      actions={
        rejected.length > 0 && (
          <button type="button" class="small" onClick={save}>
            Rejected rows as CSV
          </button>
        )
      }
    >
      <Refusal error={error} />
      <p role="status">
        <Badge state={state} tone={state === "failed" ? "bad" : isRunning ? "calm" : "good"} /> {count(done)}{" "}
        of {count(rows)} rows, {count(rejected.length)} rejected
      </p>
      <progress max={Math.max(1, rows)} value={done} aria-label="Rows imported" />
      {rejected.length > 0 && (
        <Table
          label="Rejected rows"
          rows={rejected.slice(0, SHOWN_MAX)}
          keyOf={({ row }) => String(row)}
          columns={[
            { name: "Row", numeric: true, cell: ({ row }) => count(row) },
            { name: "Why", cell: ({ reason }) => reason },
          ]}
        />
      )}
    </Card>
  );
}

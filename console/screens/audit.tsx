import { changeInWords } from "../changes.ts";
import { Badge, Empty, Screen } from "../parts/bits.tsx";
import { isIn, List, type RowFilter } from "../parts/list.tsx";
import { type Column, timeColumn } from "../parts/table.tsx";
import { capital } from "../words.ts";

type Change = {
  id: string;
  at: string;
  account: { id: string; email: string } | null;
  action: string;
  subject: string | null;
  detail: unknown;
  status: number | null;
};

const TELLING = ["name", "email", "role", "destination", "domain", "endpoint", "subject", "reason"];

export function AuditScreen() {
  return (
    <Screen title="Audit log" intro="Every change that somebody made in the console.">
      <Changes
        path="audit"
        empty="Creating a key, inviting somebody or undoing a suppression shows here, with who did it."
      />
    </Screen>
  );
}

export function Changes({ path, empty }: { path: string; empty: string }) {
  return (
    <List<Change>
      label="changes"
      path={path}
      rowFilters={FILTERS}
      columns={COLUMNS}
      exported={[...COLUMNS, { name: "Call", cell: () => null, csv: ({ action }) => action }]}
      empty={
        <Empty title="Nobody has changed anything yet">
          <p>{empty}</p>
        </Empty>
      }
    />
  );
}

const FILTERS: readonly RowFilter<Change>[] = [
  { name: "who", label: "By", holds: ({ account }, value) => isIn(value, account?.email) },
  {
    name: "what",
    label: "Find",
    holds: ({ action, subject, detail }, value) =>
      isIn(value, changeInWords(action), action, subject, say(detail)),
  },
];

const COLUMNS: readonly Column<Change>[] = [
  {
    name: "Who",
    wide: true,
    cell: ({ account }) => <Who account={account} />,
    csv: ({ account }) => account?.email,
  },
  {
    name: "What",
    cell: ({ action, account, detail }) => (
      <>
        {capital(changeInWords(action))}
        <span class="narrow reply">{shortly(detail)}</span>
        <span class="narrow muted small-text">
          <Who account={account} />
        </span>
      </>
    ),
    csv: ({ action }) => changeInWords(action),
  },
  {
    name: "Id",
    wide: true,
    cell: ({ subject }) =>
      subject && (
        <code class="ellipsis" title={subject}>
          {subject.slice(-12)}
        </code>
      ),
    csv: ({ subject }) => subject,
  },
  {
    name: "Detail",
    wide: true,
    cell: ({ detail, action, status }) => (
      <>
        <span class="reply">{shortly(detail)}</span>
        <span class="muted small-text">
          {action}
          {status !== null && `: ${status}`}
        </span>
      </>
    ),
    csv: ({ detail }) => say(detail),
  },
  { name: "Status", cell: ({ status }) => <Outcome status={status} />, csv: ({ status }) => status },
  timeColumn("When", ({ at }) => at),
];

/** Of the answer. */
function Outcome({ status }: Pick<Change, "status">) {
  if (status === null) return <Badge state="unknown" tone="warn" />;
  if (status < 400) return <Badge state="done" tone="good" />;
  return <Badge state={status < 500 ? "refused" : "failed"} tone="bad" />;
}

function Who({ account }: Pick<Change, "account">) {
  return <span class="ellipsis">{account?.email ?? "nobody"}</span>;
}

function say(detail: unknown): string {
  if (detail === null || detail === undefined) return "";
  return typeof detail === "string" ? detail : JSON.stringify(detail);
}

/** The fields that name what was changed; the export has all of them. */
function shortly(detail: unknown): string {
  if (detail === null || typeof detail !== "object") return say(detail);
  return TELLING.flatMap((name) => {
    const { [name]: value, [`new_${name}`]: after } = detail as Record<string, unknown>;
    if (typeof value !== "string") return [];
    return [typeof after === "string" ? `${value} → ${after}` : value];
  }).join(", ");
}

import { useState } from "preact/hooks";
import { call } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Badge, Empty, Refusal, Screen, Time } from "../parts/bits.tsx";
import { Confirm, Dialog, Form, maybe, Text, textOf } from "../parts/form.tsx";
import { List } from "../parts/list.tsx";
import { type Column, timeColumn } from "../parts/table.tsx";
import { BASE, go, usePlace } from "../place.ts";

type Suppression = {
  id: string;
  email: string | null;
  reason: string;
  scope: string;
  evidence: string | null;
  source_id: string | null;
  created_at: string;
};

export function SuppressionsScreen() {
  const [isAdding, setAdding] = useState(false);
  const [undoing, setUndoing] = useState<Suppression | null>(null);
  const [changes, setChanges] = useState(0);
  const changed = () => setChanges(changes + 1);
  const add = async (fields: FormData) => {
    await call("POST", "v1/suppressions", {
      email: textOf(fields, "email"),
      evidence: maybe(fields, "evidence"),
    });
    changed();
    setAdding(false);
  };
  return (
    <Screen
      title="Suppressions"
      intro="Addresses that get no mail: they bounced, complained, or were added by hand."
      actions={
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          Suppress an address
        </button>
      }
    >
      <Find key={changes} onUndo={setUndoing} />
      <List
        label="suppressions"
        path="v1/suppressions"
        filters={[{ name: "reason", label: "Reason", options: ["bounce", "complaint", "manual"] }]}
        columns={columnsFor(setUndoing)}
        refreshed={changes}
        empty={
          <Empty title="Nobody is suppressed">
            <p>
              A hard bounce or a complaint puts its address here. Mail to it ends as “suppressed”, and harms
              no reputation.
            </p>
          </Empty>
        }
      />
      {isAdding && (
        <Dialog title="Suppress an address" onClose={() => setAdding(false)}>
          <Form button="Suppress" onSubmit={add}>
            <Text label="Address" name="email" type="email" />
            <Text label="Why" name="evidence" isOptional hint="Shown beside the address." />
          </Form>
        </Dialog>
      )}
      {undoing && (
        <Confirm
          title={`Write to ${undoing.email ?? "this address"} again?`}
          button="Undo the suppression"
          onConfirm={() => call("DELETE", `v1/suppressions/${undoing.id}`).then(changed)}
          onClose={() => setUndoing(null)}
        >
          Undo it only if you know that the address works, or that its owner wants your mail.
        </Confirm>
      )}
    </Screen>
  );
}

function columnsFor(undo: (one: Suppression) => void): Column<Suppression>[] {
  return [
    {
      name: "Address",
      shrinks: true,
      cell: (one) => (
        <>
          <span class="ellipsis">{one.email ?? <em class="muted">erased</em>}</span>
          <span class="narrow small-text">
            <Evidence {...one} /> <Time at={one.created_at} />
          </span>
        </>
      ),
      csv: ({ email }) => email,
    },
    { name: "Reason", cell: ({ reason }) => <Badge state={reason} />, csv: ({ reason }) => reason },
    {
      name: "Evidence",
      wide: true,
      shrinks: true,
      cell: (one) => <Evidence {...one} />,
      csv: ({ evidence }) => evidence,
    },
    { name: "Scope", wide: true, cell: ({ scope }) => scope, csv: ({ scope }) => scope },
    timeColumn("Since", ({ created_at }) => created_at, true),
    {
      name: "Actions",
      unnamed: true,
      numeric: true,
      cell: (one) => (
        <button
          type="button"
          class="small"
          aria-label={`Undo the suppression of ${one.email ?? "an erased address"}`}
          onClick={() => undo(one)}
        >
          Undo
        </button>
      ),
    },
  ];
}

function Evidence({ evidence, source_id }: Suppression) {
  return (
    <>
      <span class="reply">{evidence}</span> {source_id && <a href={`${BASE}/emails/${source_id}`}>E-mail</a>}
    </>
  );
}

/** The list has no filter by address, but each address can be asked for. */
function Find({ onUndo }: { onUndo(one: Suppression): void }) {
  const { query } = usePlace();
  const email = query.get("find");
  const { data, error, isMissing } = useGet<Suppression>(
    email ? `v1/suppressions/${encodeURIComponent(email)}` : null,
  );
  return (
    <>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault();
          const wanted = textOf(new FormData(event.currentTarget), "find");
          go(wanted === "" ? "/suppressions" : `/suppressions?${new URLSearchParams({ find: wanted })}`);
        }}
      >
        <search class="filters single">
          <div>
            <label for="find">Is this address suppressed?</label>
            {/* as a filter of lists, it follows the address of the page */}
            <input
              key={email}
              id="find"
              name="find"
              type="search"
              defaultValue={email ?? ""}
              placeholder="ada@example.com"
            />
          </div>
        </search>
      </form>
      {email && isMissing && <p class="banner">{email} is not suppressed.</p>}
      {!isMissing && <Refusal error={error} />}
      {data && (
        <p class="banner warn">
          {data.email} is suppressed (<Badge state={data.reason} />) since <Time at={data.created_at} />.{" "}
          <Evidence {...data} />{" "}
          <button type="button" class="small" onClick={() => onUndo(data)}>
            Undo
          </button>
        </p>
      )}
    </>
  );
}

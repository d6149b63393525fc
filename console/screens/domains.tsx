import { useState } from "preact/hooks";
import { call } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Badge, Copy, Empty, Refusal, Screen, Skeleton } from "../parts/bits.tsx";
import { Confirm, Dialog, Do, Form, Text, textOf } from "../parts/form.tsx";
import { isIn, List, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, hidden, timeColumn } from "../parts/table.tsx";
import { BASE, go } from "../place.ts";
import { useMayManage } from "../session.ts";

type DnsRecord = { record: string; type: string; name: string; value: string; ttl: string; status: string };
type DomainItem = { id: string; name: string; status: string; created_at: string };
type Domain = DomainItem & { records: DnsRecord[] };

const PURPOSE: Record<string, string> = {
  DKIM: "Receivers check the signature of each mail with it.",
  Ownership: "Proves that the domain is yours.",
  SPF: "Says which servers may send for the domain.",
  DMARC: "Says what receivers do with mail that fails the checks.",
  "Return-Path": "Brings bounces back here.",
};

export function DomainsScreen() {
  const [isAdding, setAdding] = useState(false);
  const add = async (fields: FormData) => {
    const { id } = await call<Domain>("POST", "v1/domains", { name: textOf(fields, "name") });
    go(`/domains/${id}`);
  };
  return (
    <Screen
      title="Domains"
      intro="The domains that this workspace writes from."
      actions={
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          Add domain
        </button>
      }
    >
      <List<DomainItem>
        label="domains"
        path="v1/domains"
        rowFilters={[
          { name: "name", label: "Find", holds: ({ name }, value) => isIn(value, name) },
          {
            name: "status",
            label: "With status",
            options: ["not_started", "pending", "partially_verified", "verified"],
            holds: ({ status }, value) => status === value,
          },
        ]}
        columns={[
          {
            name: "Domain",
            cell: ({ id, name }) => (
              <a class="row-link" href={`${BASE}/domains/${id}`}>
                {name}
              </a>
            ),
            csv: ({ name }) => name,
          },
          { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
          timeColumn("Added", ({ created_at }) => created_at),
        ]}
        empty={
          <Empty title="Add the domain you write from">
            <p>
              You get the DNS records to publish. Once they are found, mail from the domain is signed and
              believed.
            </p>
          </Empty>
        }
      />
      {isAdding && (
        <Dialog title="Add domain" onClose={() => setAdding(false)}>
          <Form button="Add" onSubmit={add}>
            <Text
              label="Domain"
              name="name"
              placeholder="mail.example.com"
              hint="A subdomain keeps its reputation apart from your other mail."
            />
          </Form>
        </Dialog>
      )}
    </Screen>
  );
}

const RECORD_FILTERS: readonly RowFilter<DnsRecord>[] = [
  {
    name: "find",
    label: "Find",
    holds: ({ record, type, name, value: own }, value) => isIn(value, record, type, name, own),
  },
  {
    name: "status",
    label: "With status",
    options: ["not_started", "pending", "verified", "temporary_failure", "failed"],
    holds: ({ status }, value) => status === value,
  },
];

const RECORD_COLUMNS: readonly Column<DnsRecord>[] = [
  {
    name: "Record",
    cell: ({ record, type, status }) => (
      <>
        <strong>{record}</strong> <span class="muted">{type}</span>
        <div>
          <Badge state={status} />
        </div>
      </>
    ),
  },
  {
    name: "Name and value",
    cell: ({ record, name, value, ttl }) => (
      <div class="stack">
        <Value text={name} />
        <Value text={value} />
        <span class="muted small-text">
          {PURPOSE[record]} TTL: {ttl}.
        </span>
      </div>
    ),
  },
];

const EXPORTED_RECORDS: readonly Column<DnsRecord>[] = [
  hidden("Record", ({ record }) => record),
  hidden("Type", ({ type }) => type),
  hidden("Name", ({ name }) => name),
  hidden("Value", ({ value }) => value),
  hidden("TTL", ({ ttl }) => ttl),
  hidden("Status", ({ status }) => status),
];

export function DomainScreen({ id }: { id: string }) {
  const { data, error, reload } = useGet<Domain>(`v1/domains/${id}`);
  const mayManage = useMayManage();
  const [isRemoving, setRemoving] = useState(false);
  const remove = async () => {
    await call("DELETE", `v1/domains/${id}`);
    go("/domains");
  };
  return (
    <Screen
      title={data?.name ?? "Domain"}
      intro={data && <Badge state={data.status} />}
      back={{ href: `${BASE}/domains`, name: "Domains" }}
      actions={
        data && (
          <>
            <Do
              name="Check DNS now"
              isPrimary
              act={() => call("POST", `v1/domains/${id}/verify`).then(reload)}
            />
            {mayManage && (
              <button type="button" onClick={() => setRemoving(true)}>
                Remove
              </button>
            )}
          </>
        )
      }
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      {data && data.status !== "verified" && (
        <p class="banner">
          Publish these records where the DNS of {data.name} is kept. Until they are found they are looked up
          every hour.
        </p>
      )}
      {data && (
        <ShortList
          label="DNS records"
          filters={RECORD_FILTERS}
          rows={data.records}
          keyOf={({ record, name }) => record + name}
          columns={RECORD_COLUMNS}
          exported={EXPORTED_RECORDS}
        />
      )}
      {isRemoving && (
        <Confirm
          title={`Remove ${data?.name}?`}
          button="Remove the domain"
          onConfirm={remove}
          onClose={() => setRemoving(false)}
        >
          Its DKIM keys are deleted, and the workspace writes from it no longer.
        </Confirm>
      )}
    </Screen>
  );
}

function Value({ text }: { text: string }) {
  return (
    <div class="copied">
      <code>{text}</code> <Copy text={text} />
    </div>
  );
}

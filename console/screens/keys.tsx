import { useRef, useState } from "preact/hooks";
import { call, withQuery } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Badge, Empty, Refusal, Screen, Skeleton, Time } from "../parts/bits.tsx";
import { Check, Choice, Confirm, Dialog, Form, Text, textOf } from "../parts/form.tsx";
import { isIn, List, type RowFilter } from "../parts/list.tsx";
import { type Column, timeColumn } from "../parts/table.tsx";
import { BASE, refine, usePlace } from "../place.ts";
import { useConsole, useMayManage } from "../session.ts";
import type { AudienceItem, ListOf } from "../shapes.ts";
import { sendingCurl } from "./emails.tsx";

type Key = {
  id: string;
  name: string;
  shown: string;
  permissions: string[];
  audience_ids: string[] | null;
  created_at: string;
  last_used_at: string | null;
  revoked_at: string | null;
};
type Preset = { id: string; name: string; permissions: string[] };
type Keys = ListOf<Key> & { presets: Preset[]; permissions: string[]; may_manage: boolean };
type NewKey = { key: string; name: string; permissions: string[] };

const EFFECTS: Record<string, string> = {
  full: "Can do everything.",
  audience: "Adds and updates contacts in chosen audiences. It cannot read the list, send e-mail or erase.",
  sending: "Sends transactional e-mail. It cannot read or change contacts.",
};
const OWN_CHOICE = "own";

export function KeysScreen() {
  const { data, error } = useGet<Keys>("keys?limit=1");
  const mayManage = useMayManage(data);
  const [changes, setChanges] = useState(0);
  const reload = async () => setChanges((before) => before + 1);
  const { query } = usePlace();
  const [revoking, setRevoking] = useState<Key | null>(null);
  /** A dialog that is open stays, to be told what has changed meanwhile. */
  const mayOpen = useRef(false);
  mayOpen.current ||= mayManage;
  const isCreating = query.has("new") && mayOpen.current;
  const isAll = query.get("show") === "all";
  const create = (
    <button type="button" class="primary" disabled={!data || !mayManage} onClick={() => refine({ new: "1" })}>
      Create API key
    </button>
  );
  return (
    <Screen
      title="API keys"
      intro="A key is a secret of your servers. It is shown once, when it is created."
      actions={create}
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      {data && !mayManage && (
        <p class="banner">Only owners and admins create and revoke keys. You can see them.</p>
      )}
      {data && (
        <div class="bar">
          <Check
            key={String(isAll)}
            label="Show revoked keys"
            name="all"
            isChecked={isAll}
            onChange={(on) => refine({ show: on ? "all" : null })}
          />
        </div>
      )}
      {data && (
        <List<Key>
          label="API keys"
          path={isAll ? "keys" : "keys?revoked=false"}
          rowFilters={filtersFor(data.permissions)}
          columns={columnsFor(mayManage, setRevoking)}
          refreshed={changes}
          empty={<NoKeys />}
        />
      )}
      {data && data.data.length > 0 && <Rotation />}
      {isCreating && data && (
        <CreateKey keys={data} onCreated={reload} onClose={() => refine({ new: null })} />
      )}
      {revoking && <Revoke of={revoking} onDone={reload} onClose={() => setRevoking(null)} />}
    </Screen>
  );
}

function filtersFor(permissions: readonly string[]): RowFilter<Key>[] {
  return [
    { name: "name", label: "Find", holds: ({ name, shown }, value) => isIn(value, name, shown) },
    {
      name: "permission",
      label: "Allowed to",
      options: permissions,
      holds: (key, value) => key.permissions.includes(value),
    },
  ];
}

function columnsFor(mayManage: boolean, revoke: (key: Key) => void): Column<Key>[] {
  return [
    {
      name: "Name",
      cell: ({ name, shown, revoked_at }) => (
        <>
          {name} {revoked_at && <Badge state="revoked" />}
          <code class="narrow">{shown}…</code>
        </>
      ),
      csv: ({ name }) => name,
    },
    {
      name: "Key",
      wide: true,
      cell: ({ shown }) => <code class="nowrap">{shown}…</code>,
      csv: ({ shown }) => shown,
    },
    {
      name: "May",
      wide: true,
      cell: ({ permissions, audience_ids }) => (
        <>
          {permissions.join(", ")}
          {audience_ids && (
            <span class="muted">
              {" "}
              in {audience_ids.length === 1 ? "1 audience" : `${audience_ids.length} audiences`}
            </span>
          )}
        </>
      ),
      csv: ({ permissions }) => permissions.join(" "),
    },
    timeColumn("Created", ({ created_at }) => created_at, true),
    timeColumn("Last used", ({ last_used_at }) => last_used_at),
    {
      name: "Actions",
      unnamed: true,
      numeric: true,
      cell: (key) => (
        <div class="row-actions">
          <a class="wide" href={`${BASE}/emails?api_key_id=${key.id}`}>
            E-mails
          </a>
          {mayManage && key.revoked_at === null && (
            <button type="button" class="small" aria-label={`Revoke ${key.name}`} onClick={() => revoke(key)}>
              Revoke
            </button>
          )}
        </div>
      ),
    },
  ];
}

function CreateKey({
  keys,
  onCreated,
  onClose,
}: {
  keys: Keys;
  onCreated(): Promise<unknown>;
  onClose(): void;
}) {
  const { data: audiences } = useGet<ListOf<AudienceItem>>("v1/audiences?limit=100");
  const { session, showOnce } = useConsole();
  const [preset, setPreset] = useState("sending");
  const create = async (fields: FormData) => {
    const audience_ids = fields.getAll("audience");
    const wanted = preset === OWN_CHOICE ? { permissions: fields.getAll("permission") } : { preset };
    const body = {
      name: textOf(fields, "name"),
      ...wanted,
      ...(audience_ids.length > 0 && { audience_ids }),
    };
    const { key, name, permissions } = await call<NewKey>("POST", "keys", body);
    const maySend = permissions.some((one) => one === "full" || one === "emails:send");
    onClose();
    showOnce({
      ...{ title: "Your new key", label: name, noun: "key", secret: key },
      ...(maySend && { trial: sendingCurl(session.base_url, key) }),
    });
    await onCreated();
  };
  const presets = [
    ...keys.presets.map(({ id, name }) => ({ value: id, name })),
    { value: OWN_CHOICE, name: "Choose permissions" },
  ];
  return (
    <Dialog title="Create API key" onClose={onClose}>
      <Form button="Create key" onSubmit={create}>
        <Text label="Name" name="name" placeholder="shop backend" hint="Where the key is used." />
        <Choice
          label="Preset"
          name="preset"
          options={presets}
          value={preset}
          onChange={setPreset}
          hint={EFFECTS[preset] ?? "Each permission by itself."}
        />
        {preset === OWN_CHOICE && (
          <Checks
            legend="Permissions"
            name="permission"
            options={keys.permissions.map((one) => ({ value: one, name: one }))}
          />
        )}
        {preset !== "sending" && preset !== "full" && (
          <Checks
            legend="Audiences"
            name="audience"
            options={(audiences?.data ?? []).map(({ id, name }) => ({ value: id, name }))}
            hint="None chosen: all audiences."
          />
        )}
      </Form>
    </Dialog>
  );
}

function Checks({
  legend,
  name,
  options,
  hint,
}: {
  legend: string;
  name: string;
  options: { value: string; name: string }[];
  hint?: string;
}) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      {options.map((option) => (
        <Check key={option.value} label={option.name} name={name} value={option.value} />
      ))}
      {hint && <p class="hint">{hint}</p>}
    </fieldset>
  );
}

function Revoke({ of, onDone, onClose }: { of: Key; onDone(): Promise<unknown>; onClose(): void }) {
  const [cancels, setCancels] = useState(false);
  const revoke = async () => {
    await call("DELETE", withQuery(`keys/${of.id}`, { cancel_scheduled: cancels ? "true" : null }));
    await onDone();
  };
  return (
    <Confirm title={`Revoke ${of.name}?`} button="Revoke the key" onConfirm={revoke} onClose={onClose}>
      <p>
        The next request with <code>{of.shown}…</code> is refused. This cannot be undone.
      </p>
      <p>
        Last used: <Time at={of.last_used_at} />.
      </p>
      <Check label="Cancel the scheduled e-mails that it has sent" name="cancels" onChange={setCancels} />
    </Confirm>
  );
}

function NoKeys() {
  return (
    <Empty title="No key yet">
      <p>Your servers need a key for every call. “Sending only” is enough for most of them.</p>
    </Empty>
  );
}

function Rotation() {
  return (
    <details class="card">
      <summary>How to rotate a key without losing a request</summary>
      <ol>
        <li>Create a key with the same permissions.</li>
        <li>Deploy it to every server that uses the old one.</li>
        <li>Wait until “last used” of the old key stops changing.</li>
        <li>Revoke the old key. Its next request is refused.</li>
      </ol>
    </details>
  );
}

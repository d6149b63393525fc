import { useState } from "preact/hooks";
import { call, get } from "../call.ts";
import { useChanges, useGet } from "../hooks.ts";
import { Badge, Card, Facts, Refusal, Screen, Skeleton, Time, Told } from "../parts/bits.tsx";
import { objectIn } from "../parts/editor.tsx";
import { Area, Confirm, Dialog, Form, Text, textOf } from "../parts/form.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { hidden } from "../parts/table.tsx";
import { BASE, go } from "../place.ts";
import { useMayManage } from "../session.ts";
import type { Contact, ListOf } from "../shapes.ts";
import { fieldName, fullTime } from "../words.ts";
import { TagList, tagsIn } from "./audiences.tsx";

type Asked = "edit" | "unsubscribe" | "subscribe" | "archive" | "erase" | null;

export function ContactScreen({ id: audienceId, other: id }: { id: string; other: string }) {
  const path = `v1/audiences/${audienceId}/contacts/${id}`;
  const { data, error, reload } = useGet<Contact>(path);
  const mayManage = useMayManage();
  const [asked, ask] = useState<Asked>(null);
  const close = () => ask(null);
  const remove = (mode: string) => async () => {
    await call("DELETE", `${path}?mode=${mode}`);
    go(`/audiences/${audienceId}`);
  };
  const [told, tell] = useState<string | null>(null);
  const turn = (unsubscribed: boolean) => call("PATCH", path, { unsubscribed }).then(reload);
  const askAgain = async () => {
    await turn(false);
    tell(`A mail asks ${data?.email} to confirm. The status changes when they do.`);
  };
  return (
    <Screen
      title={data?.email ?? "Contact"}
      intro={data && <Badge state={data.status} />}
      back={{ href: `${BASE}/audiences/${audienceId}`, name: "Audience" }}
      actions={
        data && (
          <>
            <button type="button" onClick={() => ask("edit")}>
              Edit
            </button>
            {data.unsubscribed ? (
              <button type="button" onClick={() => ask("subscribe")}>
                Ask to subscribe again
              </button>
            ) : (
              <button type="button" onClick={() => ask("unsubscribe")}>
                Unsubscribe
              </button>
            )}
            <button type="button" onClick={() => ask("archive")}>
              Archive
            </button>
            {mayManage && (
              <button type="button" onClick={() => ask("erase")}>
                Erase
              </button>
            )}
          </>
        )
      }
    >
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      <Told words={data?.unsubscribed ? told : null} />
      {data && (
        <div class="halves">
          <Card title="Contact">
            <Facts
              facts={[
                ["Name", [data.first_name, data.last_name].filter(Boolean).join(" ")],
                ["Tags", data.tags.length > 0 && <TagList tags={data.tags} />],
                ...Object.entries(data.properties).map(([name, value]): [string, string] => [
                  name,
                  typeof value === "string" ? value : JSON.stringify(value),
                ]),
                ["Added", fullTime(data.created_at)],
                ["Changed", <Time at={data.updated_at} />],
                [
                  "E-mails",
                  <a href={`${BASE}/emails?${new URLSearchParams({ to: data.email })}`}>
                    sent to this address
                  </a>,
                ],
              ]}
            />
          </Card>
          <Consent id={data.id} />
        </div>
      )}
      {asked === "edit" && data && <Edit contact={data} path={path} onDone={reload} onClose={close} />}
      {asked === "unsubscribe" && (
        <Confirm
          title="Unsubscribe this contact?"
          button="Unsubscribe"
          onConfirm={() => turn(true)}
          onClose={close}
        >
          It gets no more mail of automations. Only the person can undo that, by the link of a mail.
        </Confirm>
      )}
      {asked === "subscribe" && (
        <Confirm title="Ask to subscribe again?" button="Send the mail" onConfirm={askAgain} onClose={close}>
          A mail asks {data?.email} to confirm, and until they do nothing changes. At most one such mail goes
          out in a day, and three until they confirm.
        </Confirm>
      )}
      {asked === "archive" && (
        <Confirm title="Archive this contact?" button="Archive" onConfirm={remove("archive")} onClose={close}>
          It leaves the audience. What it agreed to is kept as evidence.
        </Confirm>
      )}
      {asked === "erase" && (
        <Confirm title="Erase this contact?" button="Erase" onConfirm={remove("erase")} onClose={close}>
          Its data is deleted, also in e-mails that were sent to it. This cannot be undone.
        </Confirm>
      )}
    </Screen>
  );
}

/** Each with some lines of its own. */
const AT_A_GLANCE = 5;
type Recorded = Record<string, unknown>;
const CONSENT_FILTERS: readonly RowFilter<Recorded>[] = [
  {
    name: "consent",
    label: "Find",
    holds: (record, value) => isIn(value, ...toldOf(record).flat()),
  },
];

/** What was recorded of their consent: as it is, since each source knows other things. */
function Consent({ id }: { id: string }) {
  const { data, error } = useGet<ListOf<Recorded>>(`contacts/${id}/consent`);
  return (
    <Card title="Consent">
      <Refusal error={error} />
      {!data && !error && <Skeleton lines={3} />}
      {data?.data.length === 0 && <p class="muted">Nothing was recorded.</p>}
      {data && (
        <ShortList
          label="records of consent"
          filters={CONSENT_FILTERS}
          rows={data.data}
          atAGlance={AT_A_GLANCE}
          columns={Object.keys(data.data[0] ?? {}).map((name) => hidden(fieldName(name), textOfField(name)))}
          draw={(records) => (
            <ol class="timeline">
              {records.map((record, n) => (
                <li key={n}>
                  <Facts facts={toldOf(record)} />
                </li>
              ))}
            </ol>
          )}
        />
      )}
    </Card>
  );
}

function toldOf(record: Recorded): [string, string][] {
  return Object.entries(record).flatMap(([name, value]) =>
    isTold(name, value) ? [[fieldName(name), say(name, value)]] : [],
  );
}

function textOfField(name: string): (record: Recorded) => string | null {
  return ({ [name]: value }) => (value === null ? null : String(value));
}

function isTold(name: string, value: unknown): boolean {
  return value !== null && name !== "object" && name !== "id";
}

function say(name: string, value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return name === "at" || name.endsWith("_at") ? fullTime(value) : value;
}

function fieldsOf({ first_name, last_name, tags, properties }: Contact) {
  return {
    first_name: (first_name ?? "").trim(),
    last_name: (last_name ?? "").trim(),
    tags: tags.join(", ").trim(),
    properties: JSON.stringify(properties, null, 2),
  };
}

function Edit({
  contact,
  path,
  onDone,
  onClose,
}: {
  contact: Contact;
  path: string;
  onDone(): Promise<unknown>;
  onClose(): void;
}) {
  const { before, changesTo } = useChanges(fieldsOf(contact), async () => fieldsOf(await get<Contact>(path)));
  const save = async (fields: FormData) => {
    const given = { first_name: "", last_name: "", tags: "", properties: "" };
    for (const name of Object.keys(given) as (keyof typeof given)[]) given[name] = textOf(fields, name);
    // what is left as it was is not sent, also since a tag may have a comma in it
    const { first_name, last_name, tags, properties } = await changesTo(given);
    await call("PATCH", path, {
      ...(first_name !== undefined && { first_name: first_name || null }),
      ...(last_name !== undefined && { last_name: last_name || null }),
      ...(tags !== undefined && { tags: tagsIn(tags) }),
      ...(properties !== undefined && { properties: objectIn("Properties", properties) }),
    });
    await onDone();
    onClose();
  };
  return (
    <Dialog title="Edit contact" onClose={onClose}>
      <Form button="Save" onSubmit={save}>
        <div class="fields-row">
          <Text label="First name" name="first_name" isOptional value={before.first_name} />
          <Text label="Last name" name="last_name" isOptional value={before.last_name} />
        </div>
        <Text label="Tags" name="tags" isOptional hint="Separated by commas." value={before.tags} />
        <Area label="Properties" name="properties" value={before.properties} hint="As JSON." />
      </Form>
    </Dialog>
  );
}

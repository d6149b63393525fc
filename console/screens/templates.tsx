import { useEffect, useRef, useState } from "preact/hooks";
import { CallError, call, get, inquire, untilUnmoved, withQuery } from "../call.ts";
import { dropDrafts, hasDraft, useDraft } from "../draft.ts";
import { useChanges, useGet, useOnceKeys } from "../hooks.ts";
import { Badge, Card, Code, Empty, Refusal, Screen, Skeleton, Tabs, Time } from "../parts/bits.tsx";
import { Diff } from "../parts/diff.tsx";
import { Discard, Editor, JsonField, Leftover, Overtaken, objectIn, unseen } from "../parts/editor.tsx";
import { Area, Confirm, Dialog, Do, Form, Text, textOf } from "../parts/form.tsx";
import { isIn, List, type RowFilter } from "../parts/list.tsx";
import { PreviewFrame } from "../parts/preview.tsx";
import { type Column, hidden, timeColumn } from "../parts/table.tsx";
import { BASE, go, refine, usePlace } from "../place.ts";
import { useConsole } from "../session.ts";
import type { ListOf } from "../shapes.ts";

type Variable = { key: string; type: string; fallback_value: string | number | null };
type TemplateItem = {
  id: string;
  external_id: string | null;
  name: string;
  subject: string | null;
  variables: Variable[];
  updated_at: string;
};
type Template = TemplateItem & {
  version: number;
  from: string | null;
  html: string;
  text: string | null;
};
type Version = {
  id: string;
  version: number;
  created_at: string;
  is_current: boolean;
  name: string;
  subject: string | null;
  from: string | null;
  reply_to: string[];
  html: string;
  text: string | null;
  variables: { key: string; type: string; fallback_value: string | number | null }[];
};
type Rendering = { html: string; subject: string | null; text: string | null; frame_url: string };

const PAUSE_MS = 400;
const FIRST_HTML = `<h1>Hello {{first_name|there}}</h1>
<p>Thank you for your order {{order_number}}.</p>
`;

export function TemplatesScreen() {
  const [isAdding, setAdding] = useState(false);
  const { session } = useConsole();
  const add = async (fields: FormData) => {
    const body = { name: textOf(fields, "name"), subject: textOf(fields, "subject"), html: FIRST_HTML };
    const { id } = await call<{ id: string }>("POST", "v1/templates", body);
    go(`/templates/${id}`);
  };
  const curl = `curl -X PUT ${session.base_url}/api/v1/templates/order-confirmation \\
  -H 'Authorization: Bearer ${session.demo_key ?? "YOUR_API_KEY"}' \\
  -H 'Content-Type: application/json' \\
  -d '{"subject":"Your order {{order_number}}","html":"<p>Thank you, {{first_name|friend}}.</p>"}'`;
  return (
    <Screen
      title="Templates"
      intro="HTML with variables, used by e-mails and automations."
      actions={
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          New template
        </button>
      }
    >
      <List<TemplateItem>
        label="templates"
        path="v1/templates"
        rowFilters={[
          {
            name: "name",
            label: "Find",
            holds: ({ name, external_id, subject }, value) => isIn(value, name, external_id, subject),
          },
        ]}
        columns={[
          {
            name: "Name",
            cell: ({ id, name }) => (
              <a class="row-link" href={`${BASE}/templates/${id}`}>
                {name}
              </a>
            ),
            csv: ({ name }) => name,
          },
          {
            name: "External id",
            wide: true,
            cell: ({ external_id }) => external_id && <code>{external_id}</code>,
            csv: ({ external_id }) => external_id,
          },
          {
            name: "Subject",
            wide: true,
            cell: ({ subject }) => (
              <span class="ellipsis" dir="auto">
                {subject}
              </span>
            ),
            csv: ({ subject }) => subject,
          },
          timeColumn("Changed", ({ updated_at }) => updated_at),
        ]}
        empty={
          <Empty title="No template yet">
            <p>Write one here, or push it from your repository:</p>
            <Code label="A command that saves a template" text={curl} />
          </Empty>
        }
      />
      {isAdding && (
        <Dialog title="New template" onClose={() => setAdding(false)}>
          <Form button="Create" onSubmit={add}>
            <Text label="Name" name="name" />
            <Text label="Subject" name="subject" />
          </Form>
        </Dialog>
      )}
    </Screen>
  );
}

export function TemplateScreen({ id }: { id: string }) {
  const { data, error, isMissing, reload } = useGet<Template>(`v1/templates/${id}`);
  const { query } = usePlace();
  const [asked, ask] = useState<"test" | "details" | "delete" | null>(null);
  const [variables, setVariables] = useState<string | null>(null);
  const chosen = query.get("tab") ?? "edit";
  const back = { href: `${BASE}/templates`, name: "Templates" };
  const remove = async () => {
    await call("DELETE", `v1/templates/${id}`);
    dropDrafts(...draftKeys(id));
    go("/templates");
  };
  const copy = async () => {
    const made = await call<{ id: string }>("POST", `v1/templates/${id}/duplicate`);
    go(`/templates/${made.id}`);
  };
  if (!data)
    return (
      <Screen title="Template" back={back}>
        <Refusal error={error} />
        {isMissing && <Leftover keys={draftKeys(id)} />}
        {!error && <Skeleton />}
      </Screen>
    );
  return (
    <Screen
      title={data.name}
      intro={data.external_id && <code>{data.external_id}</code>}
      back={back}
      actions={
        <>
          <button type="button" onClick={() => ask("test")}>
            Send a test
          </button>
          <button type="button" onClick={() => ask("details")}>
            Details
          </button>
          <Do name="Duplicate" act={copy} />
          <button type="button" onClick={() => ask("delete")}>
            Delete
          </button>
        </>
      }
    >
      <Refusal error={error} />
      <Tabs
        label="Template"
        tabs={[
          { id: "edit", name: "Edit" },
          { id: "versions", name: "Versions" },
        ]}
        chosen={chosen}
        onChoose={(tab) => refine({ tab })}
      />
      {chosen === "versions" ? (
        <Versions template={data} onRestored={reload} />
      ) : (
        <Edit
          template={data}
          variables={variables ?? exampleOf(data)}
          onVariables={setVariables}
          onSaved={reload}
        />
      )}
      {asked === "details" && <Details template={data} onSaved={reload} onClose={() => ask(null)} />}
      {asked === "test" && <SendTest template={data} onClose={() => ask(null)} />}
      {asked === "delete" && (
        <Confirm
          title={`Delete ${data.name}?`}
          button="Delete the template"
          onConfirm={remove}
          onClose={() => ask(null)}
        >
          E-mails that were accepted keep their contents. Requests that name it are refused.
        </Confirm>
      )}
    </Screen>
  );
}

/** As a field gives it back. */
function asTyped(text: string | null): string {
  return (text ?? "").replaceAll("\r\n", "\n");
}

function detailsOf({ name, from, text }: Template) {
  return { name: name.trim(), from: (from ?? "").trim(), plain_text: asTyped(text) };
}

type DetailsOf = { template: Template; onSaved(): Promise<unknown>; onClose(): void };

/** What is no draft: it is saved by a button of its own. */
function Details({ template, onSaved, onClose }: DetailsOf) {
  const path = `v1/templates/${template.id}`;
  const version = useRef(template.version);
  const { before, changesTo } = useChanges(detailsOf(template), async () => {
    const now = await get<Template>(path);
    version.current = now.version;
    return detailsOf(now);
  });
  const save = async (fields: FormData) => {
    const given = {
      ...{ name: textOf(fields, "name"), from: textOf(fields, "from") },
      plain_text: asTyped(String(fields.get("text"))),
    };
    await untilUnmoved(async () => {
      const { plain_text, ...rest } = await changesTo(given);
      const changes = { ...rest, ...(plain_text !== undefined && { text: plain_text }) };
      if (Object.keys(changes).length > 0)
        await call("PATCH", path, { ...changes, if_version: version.current });
    });
    await onSaved();
    onClose();
  };
  return (
    <Dialog title="Details" onClose={onClose}>
      <Form button="Save" onSubmit={save}>
        <Text label="Name" name="name" value={before.name} />
        <Text
          label="From"
          name="from"
          value={before.from}
          isOptional
          placeholder="Shop <orders@example.com>"
          hint="For requests that name no sender."
        />
        <Area
          label="Plain text"
          name="text"
          value={before.plain_text}
          isOptional
          hint={
            template.text === null
              ? "It is made from the HTML until you write one."
              : "If you empty it, mail has no plain text."
          }
        />
      </Form>
    </Dialog>
  );
}

type Edited = {
  template: Template;
  variables: string;
  onVariables(variables: string): void;
  onSaved(): Promise<Template | null>;
};

function Edit({ template, variables, onVariables, onSaved }: Edited) {
  const [ofHtml, ofSubject] = draftKeys(template.id);
  const html = useDraft(ofHtml, template.html);
  const subject = useDraft(ofSubject, template.subject ?? "");
  const { rendering, fault } = useRendering(html.text, subject.text, variables);
  const isChanged = html.isChanged || subject.isChanged;
  const save = async () => {
    await untilUnmoved(async () => {
      const now = await get<Template>(`v1/templates/${template.id}`);
      if (html.isUnseen(now.html) || subject.isUnseen(now.subject ?? "")) {
        await onSaved();
        throw unseen();
      }
      html.saving();
      subject.saving();
      // what somebody else has saved of the other stays
      await call("PATCH", `v1/templates/${template.id}`, {
        if_version: now.version,
        ...(html.isChanged && { html: html.text }),
        ...(subject.isChanged && { subject: subject.text }),
      });
    });
    const kept = await onSaved();
    html.saved(html.text, kept?.html ?? null);
    subject.saved(subject.text, kept ? (kept.subject ?? "") : null);
  };
  const discard = () => {
    html.discard();
    subject.discard();
  };
  return (
    <div class="halves">
      <Card
        title="HTML"
        actions={
          <>
            {isChanged && <Discard onDiscard={discard} />}
            <Do name={isChanged ? "Save" : "Saved"} isPrimary isOff={!isChanged} act={save} />
          </>
        }
      >
        <div class="stack">
          {(html.isOvertaken || subject.isOvertaken) && (
            <Overtaken href={`${BASE}/templates/${template.id}?tab=versions`} />
          )}
          <Text label="Subject" name="subject" value={subject.text} isOptional onInput={subject.type} />
          <Editor label="HTML" value={html.text} faultyLine={lineIn(fault?.source)} onInput={html.type} />
          <Refusal error={fault?.source ?? null} />
        </div>
      </Card>
      <Card title={rendering?.subject ?? "Preview"}>
        {rendering && <PreviewFrame src={rendering.frame_url} title="Preview of the template" />}
        {!rendering && !fault && <Skeleton />}
        <JsonField label="Variables of the preview" value={variables} onInput={onVariables} />
        <Refusal error={fault?.variables ?? null} />
      </Card>
    </div>
  );
}

function draftKeys(id: string): [string, string] {
  return [`template ${id} html`, `template ${id} subject`];
}

/** What the server makes of it, a moment after the last key. */
function useRendering(html: string, subject: string, variables: string) {
  const [rendering, setRendering] = useState<Rendering | null>(null);
  const [fault, setFault] = useState<{ source?: string; variables?: string } | null>(null);
  useEffect(() => {
    let isCurrent = true;
    const timer = setTimeout(async () => {
      try {
        const values = objectIn("Variables of the preview", variables);
        const made = await inquire<Rendering>("templates/render", { html, subject, variables: values });
        if (!isCurrent) return;
        setRendering(made);
        setFault(null);
      } catch (refusal) {
        if (!isCurrent) return;
        const { message } = refusal as Error;
        // the lines that the parser of JSON names are none of the HTML
        setFault(refusal instanceof CallError ? { source: message } : { variables: message });
      }
    }, PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [html, subject, variables]);
  return { rendering, fault };
}

function exampleOf({ variables }: Template): string {
  const values = variables.map(({ key, fallback_value }) => [
    key,
    fallback_value ?? key.replaceAll("_", " "),
  ]);
  return JSON.stringify(Object.fromEntries(values), null, 2);
}

/** The refusals of Liquid name the line. */
function lineIn(error: string | undefined): number | null {
  const line = /line[: ]+(\d+)/i.exec(error ?? "")?.[1];
  return line === undefined ? null : Number(line);
}

/** All that a version keeps, to be compared line by line. */
function textOfAll({ name, subject, from, reply_to, html, text, variables }: Version): string {
  const head = [
    `Name: ${name}`,
    `Subject: ${subject ?? ""}`,
    ...(from === null ? [] : [`From: ${from}`]),
    ...(reply_to.length === 0 ? [] : [`Reply to: ${reply_to.join(", ")}`]),
    ...variables.map(({ key, type, fallback_value }) => `Variable ${key}, ${type}: ${fallback_value ?? ""}`),
  ];
  const plain = text === null ? "" : `\n\nPlain text:\n${text}`;
  return `${head.join("\n")}\n\n${html}${plain}`;
}

const VERSION_FILTERS: readonly RowFilter<Version>[] = [
  { name: "find", label: "Find", holds: (version, value) => isIn(value, textOfAll(version)) },
];
const VERSION_COLUMNS: readonly Column<Version>[] = [
  hidden("Version", ({ version }) => version),
  hidden("Saved", ({ created_at }) => created_at),
  hidden("Name", ({ name }) => name),
  hidden("Subject", ({ subject }) => subject),
  hidden("From", ({ from }) => from),
  hidden("Reply to", ({ reply_to }) => reply_to.join(", ")),
  hidden("HTML", ({ html }) => html),
  hidden("Plain text", ({ text }) => text),
];

function Versions({ template, onRestored }: { template: Template; onRestored(): Promise<unknown> }) {
  const path = `templates/${template.id}/versions`;
  const { query } = usePlace();
  const [changes, setChanges] = useState(0);
  const [asked, ask] = useState<Version | null>(null);
  const drafts = draftKeys(template.id);
  const chosen = query.get("version");
  // with the one before it
  const { data, error, reload } = useGet<ListOf<Version>>(
    withQuery(path, { limit: 2, cursor: chosen && Number(chosen) + 1 }),
  );
  const restore = async ({ version }: Version) => {
    await call("POST", `templates/${template.id}/restore`, { version });
    dropDrafts(...drafts);
    setChanges(changes + 1);
    await Promise.all([onRestored(), reload()]);
  };
  const draw = (versions: readonly Version[]) => (
    <ol class="timeline">
      {versions.map((one) => (
        <li key={one.id}>
          <button
            type="button"
            class="plain"
            aria-pressed={one.id === data?.data[0]?.id}
            onClick={() => refine({ version: one.is_current ? null : one.id })}
          >
            Version {one.version}
          </button>{" "}
          {one.is_current ? (
            <Badge state="live" tone="good" />
          ) : hasDraft(...drafts) ? (
            <button type="button" onClick={() => ask(one)}>
              Restore
            </button>
          ) : (
            <Do name="Restore" act={() => restore(one)} />
          )}
          <div class="muted small-text">
            <Time at={one.created_at} />
          </div>
        </li>
      ))}
    </ol>
  );
  return (
    <div class="columns">
      <Compared chosen={chosen} pair={data?.data ?? null} error={error} />
      <Card title="Versions">
        <List<Version>
          label="versions"
          path={path}
          refreshed={changes}
          rowFilters={VERSION_FILTERS}
          columns={VERSION_COLUMNS}
          draw={draw}
          empty={null}
        />
      </Card>
      {asked && (
        <Confirm
          title={`Restore version ${asked.version}?`}
          button="Restore it"
          onConfirm={() => restore(asked)}
          onClose={() => ask(null)}
        >
          What was typed under Edit and not saved is discarded.
        </Confirm>
      )}
    </div>
  );
}

type Compared = { chosen: string | null; pair: readonly Version[] | null; error: string | null };

/** A version, and what it changed. */
function Compared({ chosen, pair, error }: Compared) {
  if (!pair && !error) return <Skeleton />;
  const [shown, before] = pair ?? [];
  if (!shown || (chosen !== null && chosen !== shown.id))
    return (
      <Card title={`Version ${chosen}`}>
        <Refusal error={error} />
        {!error && <p class="muted">There is no such version any more: the newest 100 are kept.</p>}
      </Card>
    );
  return (
    <Card title={before ? `Version ${shown.version} beside ${before.version}` : `Version ${shown.version}`}>
      <Refusal error={error} />
      {before ? (
        <Diff before={textOfAll(before)} after={textOfAll(shown)} />
      ) : (
        <Code label={`Version ${shown.version}`} text={textOfAll(shown)} />
      )}
    </Card>
  );
}

function SendTest({ template, onClose }: { template: Template; onClose(): void }) {
  const { session } = useConsole();
  const keyOf = useOnceKeys();
  const send = async (fields: FormData) => {
    const variables = objectIn("Variables", textOf(fields, "variables"));
    const email = {
      from: textOf(fields, "from"),
      to: textOf(fields, "to"),
      template: { id: template.id, variables },
    };
    const { id } = await call<{ id: string }>("POST", "v1/emails", email, keyOf(email));
    go(`/emails/${id}`);
  };
  return (
    <Dialog title="Send a test" onClose={onClose}>
      <Form button="Send" onSubmit={send}>
        {hasDraft(...draftKeys(template.id)) && (
          <p class="banner warn">What you have not saved is not in it. Save first to test it.</p>
        )}
        <Text label="From" name="from" value={template.from ?? ""} placeholder="Shop <orders@example.com>" />
        <Text label="To" name="to" type="email" value={session.account.email} />
        <JsonField label="Variables" name="variables" value={exampleOf(template)} />
      </Form>
    </Dialog>
  );
}

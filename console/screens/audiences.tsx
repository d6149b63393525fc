import { useState } from "preact/hooks";
import { call, linkOf } from "../call.ts";
import { useGet } from "../hooks.ts";
import { Badge, Code, Empty, Screen } from "../parts/bits.tsx";
import { Check, Confirm, Dialog, Form, maybe, Text, textOf } from "../parts/form.tsx";
import { isIn, List } from "../parts/list.tsx";
import { timeColumn } from "../parts/table.tsx";
import { BASE, go } from "../place.ts";
import { useConsole, useMayManage } from "../session.ts";
import type { AudienceItem, Contact } from "../shapes.ts";

type Audience = AudienceItem & { double_opt_in: boolean };

export function AudiencesScreen() {
  const [isAdding, setAdding] = useState(false);
  const add = async (fields: FormData) => {
    const body = { name: textOf(fields, "name"), double_opt_in: fields.has("double_opt_in") };
    const { id } = await call<Audience>("POST", "v1/audiences", body);
    go(`/audiences/${id}`);
  };
  return (
    <Screen
      title="Audiences"
      intro="Lists of contacts, with what they agreed to."
      actions={
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          New audience
        </button>
      }
    >
      <List<AudienceItem>
        label="audiences"
        path="v1/audiences"
        rowFilters={[{ name: "name", label: "Find", holds: ({ id, name }, value) => isIn(value, name, id) }]}
        columns={[
          {
            name: "Name",
            cell: ({ id, name }) => (
              <a class="row-link" href={`${BASE}/audiences/${id}`}>
                {name}
              </a>
            ),
            csv: ({ name }) => name,
          },
          { name: "Id", wide: true, cell: ({ id }) => <code class="muted">{id}</code>, csv: ({ id }) => id },
          timeColumn("Created", ({ created_at }) => created_at),
        ]}
        empty={
          <Empty title="No audience yet">
            <p>An audience holds the contacts that automations write to.</p>
          </Empty>
        }
      />
      {isAdding && (
        <Dialog title="New audience" onClose={() => setAdding(false)}>
          <Form button="Create" onSubmit={add}>
            <Text label="Name" name="name" />
            <Check label="Ask new contacts to confirm by mail (double opt-in)" name="double_opt_in" />
          </Form>
        </Dialog>
      )}
    </Screen>
  );
}

export function AudienceScreen({ id }: { id: string }) {
  const { data, error } = useGet<Audience>(`v1/audiences/${id}`);
  const { session, workspace } = useConsole();
  const mayManage = useMayManage();
  const [asked, ask] = useState<"add" | "delete" | null>(null);
  const [changes, setChanges] = useState(0);
  const add = async (fields: FormData) => {
    await call("POST", `v1/audiences/${id}/contacts`, {
      email: textOf(fields, "email"),
      first_name: maybe(fields, "first_name"),
      last_name: maybe(fields, "last_name"),
      tags: tagsIn(textOf(fields, "tags")),
    });
    setChanges(changes + 1);
    ask(null);
  };
  const remove = async () => {
    await call("DELETE", `v1/audiences/${id}`);
    go("/audiences");
  };
  const curl = `curl ${session.base_url}/api/v1/audiences/${id}/contacts \\
  -H 'Authorization: Bearer ${session.demo_key ?? "YOUR_API_KEY"}' \\
  -H 'Content-Type: application/json' \\
  -d '{"email":"ada@example.com","first_name":"Ada","tags":["customer"]}'`;
  return (
    <Screen
      title={data?.name ?? "Audience"}
      intro={data?.double_opt_in ? "New contacts confirm by mail (double opt-in)." : error}
      back={{ href: `${BASE}/audiences`, name: "Audiences" }}
      actions={
        data && (
          <>
            <button type="button" class="primary" onClick={() => ask("add")}>
              Add contact
            </button>
            <a class="button" href={`${BASE}/audiences/${id}/import`}>
              Import
            </a>
            <a
              class="button"
              href={linkOf({ session, workspace }, "contacts/export", { audience_id: id })}
              download
            >
              Export all
            </a>
            {mayManage && (
              <button type="button" onClick={() => ask("delete")}>
                Delete
              </button>
            )}
          </>
        )
      }
    >
      <List<Contact>
        label="contacts"
        path={`v1/audiences/${id}/contacts`}
        refreshed={changes}
        filters={[
          { name: "status", label: "Status", options: ["pending", "subscribed", "unsubscribed"] },
          { name: "email", label: "Address", placeholder: "ada@example.com" },
          { name: "tag", label: "Tag", placeholder: "customer" },
        ]}
        columns={[
          {
            name: "Address",
            shrinks: true,
            cell: (contact) => (
              <a class="row-link ellipsis" href={`${BASE}/audiences/${id}/contacts/${contact.id}`}>
                {contact.email}
              </a>
            ),
            csv: ({ email }) => email,
          },
          { name: "Name", wide: true, cell: nameOf, csv: nameOf },
          { name: "Status", cell: ({ status }) => <Badge state={status} />, csv: ({ status }) => status },
          {
            name: "Tags",
            wide: true,
            cell: ({ tags }) => <TagList tags={tags} />,
            csv: ({ tags }) => tags.join(" "),
          },
          timeColumn("Added", ({ created_at }) => created_at, true),
        ]}
        empty={
          <Empty title="No contact yet">
            <p>Import a CSV file, or let your application add contacts:</p>
            <Code label="A command that adds a contact" text={curl} />
          </Empty>
        }
      />
      {asked === "add" && (
        <Dialog title="Add contact" onClose={() => ask(null)}>
          <Form button="Add" onSubmit={add}>
            <Text label="Address" name="email" type="email" />
            <div class="fields-row">
              <Text label="First name" name="first_name" isOptional />
              <Text label="Last name" name="last_name" isOptional />
            </div>
            <Text label="Tags" name="tags" isOptional hint="Separated by commas." />
          </Form>
        </Dialog>
      )}
      {asked === "delete" && (
        <Confirm
          title={`Delete ${data?.name ?? "this audience"}?`}
          button="Delete the audience"
          onConfirm={remove}
          onClose={() => ask(null)}
        >
          Its contacts are erased, and runs of its automations stop. This cannot be undone.
        </Confirm>
      )}
    </Screen>
  );
}

export function tagsIn(text: string): string[] {
  return text
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
}

export function TagList({ tags }: { tags: readonly string[] }) {
  return (
    <span class="tags">
      {tags.map((tag) => (
        <Badge key={tag} state={tag} words={tag} tone="quiet" />
      ))}
    </span>
  );
}

function nameOf({ first_name, last_name }: Contact): string {
  return [first_name, last_name].filter(Boolean).join(" ");
}

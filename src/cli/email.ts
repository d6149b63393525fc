/** `postrider email find`: which workspace an e-mail is of, for whoever handles a complaint about it. */
import { parseMailbox } from "../address.ts";
import { isMark, isUuid, workspaceMarker } from "../ids.ts";
import { type FoundMail, mailOfId, mailTo } from "../record/mail/find.ts";
import { findEmails } from "../record/mail/read.ts";
import { listWorkspaces } from "../record/workspaces/workspaces.ts";
import { reasonOf } from "../rules/reason.ts";
import { type Context, requireSecret } from "./context.ts";
import { CommandError, complain, type OutputOptions, oneLine, say, table } from "./print.ts";

const FOUND_MAX = 100;
const SEARCH_MS_MAX = 20_000;

type FindOptions = OutputOptions & { workspace?: string };

export async function find(context: Context, what: string, options: FindOptions): Promise<void> {
  const { sql, clock } = context;
  const { workspace = null } = options;
  if (isMark(what.toLowerCase())) return findMarked(context, what.toLowerCase(), options);
  const id = idIn(what);
  const byId = id === null ? [] : await mailOfId(sql, workspace, id);
  if (byId.length > 0 || isUuid(what)) return tell(context, options, byId, "");
  const to = parseMailbox(what);
  if (!to) throw new CommandError(`${what} is not a Message-ID, an id, an address or an X-Postrider-Mark.`);
  const search = { workspaceId: workspace, now: clock.now(), most: FOUND_MAX, msMax: SEARCH_MS_MAX };
  const { found, since, isAll } = await mailTo(sql, to, search);
  const bound = isAll
    ? ""
    : `Only e-mails since ${since.toISOString()} were searched: give --workspace to search more.`;
  if (bound !== "" && options.json) complain(bound);
  await tell(context, options, found, bound);
}

/** Ours are made of the id and the sender's domain. */
function idIn(what: string): string | null {
  const [left = ""] = what.replace(/^<|>$/g, "").split("@");
  return isUuid(left) ? left.toLowerCase() : null;
}

async function findMarked(context: Context, mark: string, options: FindOptions): Promise<void> {
  const { workspace = null } = options;
  const markOf = workspaceMarker(await requireSecret(context));
  const marked = (await listWorkspaces(context.sql)).filter(
    ({ id }) => (workspace === null || id === workspace) && markOf(id) === mark,
  );
  say(
    options,
    marked.map(({ id, name }) => ({ workspace_id: id, id: null, name })),
    marked.length === 0
      ? "None."
      : marked.map(({ id, name }) => `Mail of workspace ${id} (${oneLine(name)}).`).join("\n"),
  );
}

async function tell(
  { sql, clock }: Context,
  options: OutputOptions,
  found: readonly FoundMail[],
  bound: string,
): Promise<void> {
  const emails = await findEmails(
    sql,
    found.map(({ workspaceId, id }) => ({ workspaceId, emailId: id })),
  );
  const now = clock.now();
  const shown = found.map(({ workspaceId, id, status, createdAt, head }) => {
    const email = emails.get(id);
    return {
      workspace_id: workspaceId,
      id,
      status: email?.status ?? status,
      reason: email ? reasonOf(email, email.history, now) : null,
      next_attempt_at: email?.nextAttemptAt?.toISOString() ?? null,
      created_at: createdAt.toISOString(),
      from: head.from,
      to: head.to,
      subject: head.subject,
    };
  });
  const rows = shown.map((one) => [
    one.workspace_id,
    one.id,
    one.status,
    one.created_at,
    one.from,
    one.to.join(", "),
    one.reason,
  ]);
  const text = table(rows, ["workspace", "id", "status", "accepted", "from", "to", "why"]);
  say(options, shown, bound === "" ? text : `${text}\n${bound}`);
}

/**
 * Saved templates and their versions. A template is named by its id or by the external id its caller chose; a
 * change adds a version, and the newest are kept.
 */
import { codeOf } from "../../caught.ts";
import { isUuid } from "../../ids.ts";
import type { Sql, Tx } from "../db/connect.ts";
import {
  arrayOf,
  boolean,
  integer,
  json,
  omit,
  orNull,
  pick,
  type RowOf,
  text,
  timestamp,
  typed,
} from "../db/rowshape.ts";
import { PAGE_BYTES_MAX, type Page } from "./read.ts";

const VERSIONS_KEPT_MAX = 100;
const UNIQUE_VIOLATION = "23505";

const templateContentRow = {
  name: text,
  subject: orNull(text),
  from: orNull(text),
  replyTo: arrayOf(text),
  html: text,
  plain: orNull(text),
  /** All that it uses or declares. */
  variables: json<TemplateVariable[]>(),
  declared: json<TemplateVariable[]>(),
};
export type TemplateContent = RowOf<typeof templateContentRow>;
export type TemplateVariable = { key: string; type: string; fallback_value: string | number | null };

const templateRow = {
  ...omit(templateContentRow, "html", "plain", "declared"),
  id: text,
  externalId: orNull(text),
  version: integer,
  createdAt: timestamp,
  updatedAt: timestamp,
};
export type TemplateRow = RowOf<typeof templateRow>;
const wholeTemplateRow = { ...templateRow, ...templateContentRow };
export type WholeTemplate = RowOf<typeof wholeTemplateRow>;

export type NewTemplate = { workspaceId: string; id: string; externalId: string | null };

/** Saves under an external id: a new template, or a new version of the one that has it. */
export async function putTemplate(
  sql: Sql,
  { workspaceId, id, externalId }: NewTemplate,
  content: TemplateContent,
  now: Date,
): Promise<{ id: string; isNew: boolean }> {
  return sql.begin(async (tx) => {
    const [saved] = await typed(tx, { id: text, version: integer })`
      insert into template as t (workspace_id, id, external_id, version, created_at, updated_at)
      values (${workspaceId}, ${id}, ${externalId}, 1, ${now}, ${now})
      on conflict (workspace_id, external_id) do update
        set version = t.version + 1, updated_at = greatest(t.updated_at, excluded.updated_at)
      returning id, version`;
    if (!saved) throw new Error("a template was neither new nor known");
    await addVersion(tx, workspaceId, saved, content, now);
    return { id: saved.id, isNew: saved.version === 1 };
  });
}

/** False when the external id is taken. */
export async function insertTemplate(
  sql: Sql,
  { workspaceId, id, externalId }: NewTemplate,
  content: TemplateContent,
  now: Date,
): Promise<boolean> {
  return sql.begin(async (tx) => {
    const [saved] = await typed(tx, { id: text, version: integer })`
      insert into template (workspace_id, id, external_id, version, created_at, updated_at)
      values (${workspaceId}, ${id}, ${externalId}, 1, ${now}, ${now})
      on conflict (workspace_id, external_id) do nothing returning id, version`;
    if (!saved) return false;
    await addVersion(tx, workspaceId, saved, content, now);
    return true;
  });
}

/**
 * `amend` makes the next version of the last, under the lock that keeps others from doing the same. `rename`:
 * its new external id, null when it keeps its own.
 */
export async function amendTemplate(
  sql: Sql,
  workspaceId: string,
  ref: string,
  rename: string | null,
  amend: (whole: WholeTemplate) => Promise<TemplateContent>,
  now: Date,
): Promise<{ kind: "amended"; id: string } | { kind: "unknown" } | { kind: "taken" }> {
  try {
    return await sql.begin(async (tx) => {
      // who has that name already is locked too: two that swap their names would each wait for the other
      const locked = await typed(tx, { id: text, isMeant: boolean })`
        select t.id, ${named(tx, ref)} as "isMeant" from template t
        where t.workspace_id = ${workspaceId} and (${named(tx, ref)} ${rename === null ? tx`` : tx`or t.external_id = ${rename}`})
        order by t.id for update`;
      const meant = locked.find(({ isMeant }) => isMeant);
      const whole = meant && (await findTemplate(tx, workspaceId, meant.id));
      if (!whole) return { kind: "unknown" };
      const content = await amend(whole);
      const [saved] = await typed(tx, { id: text, version: integer })`
        update template set external_id = coalesce(${rename}, external_id), version = version + 1,
          updated_at = greatest(updated_at, ${now})
        where workspace_id = ${workspaceId} and id = ${whole.id} returning id, version`;
      if (saved) await addVersion(tx, workspaceId, saved, content, now);
      return { kind: "amended", id: whole.id };
    });
  } catch (error) {
    if (codeOf(error) === UNIQUE_VIOLATION) return { kind: "taken" };
    throw error;
  }
}

async function addVersion(
  tx: Tx,
  workspaceId: string,
  { id, version }: { id: string; version: number },
  { name, subject, from, replyTo, html, plain, variables, declared }: TemplateContent,
  now: Date,
): Promise<void> {
  await tx`
    insert into template_version (workspace_id, template_id, version, name, subject, sender, reply_to, html,
      plain,
                                  variables, declared, created_at)
    values (${workspaceId}, ${id}, ${version}, ${name}, ${subject}, ${from}, ${replyTo}, ${html}, ${plain},
            ${tx.json(variables)}, ${tx.json(declared)}, ${now})`;
  await tx`delete from template_version
    where workspace_id = ${workspaceId} and template_id = ${id}
      and version <= ${version - VERSIONS_KEPT_MAX}`;
}

export async function findTemplate(
  sql: Sql | Tx,
  workspaceId: string,
  ref: string,
): Promise<WholeTemplate | null> {
  const [row] = await typed(sql, wholeTemplateRow)`
    select ${columns(sql)}, v.html, v.plain, v.declared from template t ${withVersion(sql)}
    where t.workspace_id = ${workspaceId} and ${named(sql, ref)}`;
  return row ?? null;
}

/** A page and one more row, so that the caller sees whether more follow. */
export async function listTemplates(sql: Sql, workspaceId: string, page: Page): Promise<TemplateRow[]> {
  if (page.before !== null)
    return typed(sql, templateRow)`
      select ${columns(sql)} from template t ${withVersion(sql)}
      where t.workspace_id = ${workspaceId} and t.id > ${page.before} order by t.id limit ${page.limit + 1}`;
  return typed(sql, templateRow)`
    select ${columns(sql)} from template t ${withVersion(sql)}
    where t.workspace_id = ${workspaceId} ${page.after === null ? sql`` : sql`and t.id < ${page.after}`}
    order by t.id desc limit ${page.limit + 1}`;
}

/** Hands back its id, or null when there was none. */
export async function deleteTemplate(sql: Sql, workspaceId: string, ref: string): Promise<string | null> {
  const [row] = await typed(sql, { id: text })`
    delete from template t where t.workspace_id = ${workspaceId} and ${named(sql, ref)} returning t.id`;
  return row?.id ?? null;
}

const versionRefRow = {
  id: text,
  version: integer,
};
export type VersionRef = RowOf<typeof versionRefRow>;

/** Which versions are the ones to send, of many templates at once and without their text. */
export async function currentVersions(
  sql: Sql,
  workspaceId: string,
  refs: readonly string[],
): Promise<(VersionRef & { externalId: string | null })[]> {
  const ids = refs.filter(isUuid);
  const externalIds = refs.filter((ref) => !isUuid(ref));
  return sql`
    select t.id, t.external_id as "externalId", t.version from template t
    where t.workspace_id = ${workspaceId} and (t.id = any(${ids}::uuid[])
      or t.external_id = any(${externalIds}::text[]))`;
}

const versionTextRow = {
  ...versionRefRow,
  ...pick(templateContentRow, "subject", "from", "replyTo", "html", "plain", "declared"),
};
export type VersionText = RowOf<typeof versionTextRow>;

export async function readVersions(
  sql: Sql,
  workspaceId: string,
  refs: readonly VersionRef[],
): Promise<VersionText[]> {
  return typed(sql, versionTextRow)`
    select v.template_id as id, v.version, v.subject, v.sender as "from", v.reply_to as "replyTo", v.html,
      v.plain,
           v.declared
    from template_version v
    join unnest(${refs.map(({ id }) => id)}::uuid[], ${refs.map(({ version }) => version)}::int[]) as r(id,
      version)
      on v.template_id = r.id and v.version = r.version
    where v.workspace_id = ${workspaceId}`;
}

const templateVersionRow = {
  ...omit(templateContentRow, "variables"),
  version: integer,
  createdAt: timestamp,
  isCurrent: boolean,
  isOldest: boolean,
};
export type TemplateVersion = RowOf<typeof templateVersionRow>;

/**
 * Newest first, those before `before`; of long ones as many as have room in an answer, and one at least. The
 * oldest is that of all that are kept.
 */
export async function listVersions(
  sql: Sql,
  workspaceId: string,
  ref: string,
  { before, most }: { before: number | null; most: number },
): Promise<TemplateVersion[]> {
  return typed(sql, templateVersionRow)`
    select version, "createdAt", "isCurrent", "isOldest", name, subject, "from", "replyTo", html, plain, declared
    from (
      select v.version, v.created_at as "createdAt", v.version = t.version as "isCurrent",
        lead(v.version) over newest is null as "isOldest", v.name, v.subject, v.sender as "from",
        v.reply_to as "replyTo", v.html, v.plain, v.declared,
        sum(octet_length(v.html)) over newest - octet_length(v.html) as bytes_before
      from template t join template_version v on v.workspace_id = t.workspace_id and v.template_id = t.id
      where t.workspace_id = ${workspaceId} and ${named(sql, ref)}
        and (${before}::int is null or v.version < ${before}::int)
      window newest as (order by v.version desc)
    ) v where bytes_before < ${PAGE_BYTES_MAX} order by version desc limit ${most}`;
}

/** null: there is none, or it is older than those that are kept. */
export async function findVersion(
  sql: Sql,
  workspaceId: string,
  templateId: string,
  version: number,
): Promise<TemplateContent | null> {
  const [row] = await typed(sql, templateContentRow)`
    select v.name, v.subject, v.sender as "from", v.reply_to as "replyTo", v.html, v.plain, v.variables,
      v.declared
    from template_version v
    where v.workspace_id = ${workspaceId} and v.template_id = ${templateId} and v.version = ${version}`;
  return row ?? null;
}

function named(sql: Sql | Tx, ref: string) {
  return isUuid(ref) ? sql`t.id = ${ref}` : sql`t.external_id = ${ref}`;
}

function withVersion(sql: Sql | Tx) {
  return sql`join template_version v
    on v.workspace_id = t.workspace_id and v.template_id = t.id and v.version = t.version`;
}

function columns(sql: Sql | Tx) {
  return sql`t.id, t.external_id as "externalId", t.version, t.created_at as "createdAt", t.updated_at as "updatedAt",
    v.name, v.subject, v.sender as "from", v.reply_to as "replyTo", v.variables`;
}

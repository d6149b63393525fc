/**
 * Expand and contract: the version before serves on the schema of this one. What it still uses is dropped or
 * narrowed one version later. An exception is listed in test/rig/previous.json, with the reason why nothing
 * breaks.
 */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type Danger, dangersOf } from "../rig/migrations.ts";
import { exceptions, lastSchema } from "../rig/previous.ts";

const FOLDER = new URL("../../src/record/migrations/", import.meta.url);
const of = (text: string): Danger[] => dangersOf([{ name: "one.sql", text }]);

test("migrations since then only add", () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(".sql") && name > lastSchema());
  const dangers = dangersOf(
    files.map((name) => ({ name, text: readFileSync(new URL(name, FOLDER), "utf8") })),
  );
  const isListed = ({ migration, statement }: Danger) =>
    exceptions.some((one) => one.migration === migration && one.statement === statement);
  expect(dangers.filter((danger) => !isListed(danger))).toEqual([]);
  const isNeeded = (one: { migration: string; statement: string }) =>
    dangers.some(({ migration, statement }) => migration === one.migration && statement === one.statement);
  expect(exceptions.filter((one) => !isNeeded(one) || one.reason.length < 20)).toEqual([]);
});

test.each([
  ["drop table email"],
  ["alter table email drop column bulk"],
  ["ALTER TABLE email\n  DROP bulk"],
  ["alter table email add column a int, drop if exists bulk cascade"],
  ["alter table email rename column bulk to kind"],
  ["alter table email rename to mail"],
  ["alter table email add column kind text not null"],
  ["alter table email add kind text not null check (kind in ('a', 'b'))"],
  ["alter table email add a int not null default 0, add b int not null"],
  ["alter table email alter column bulk set not null"],
  ["alter table email alter bulk type text"],
  ["alter table email alter column bulk drop default"],
  ["alter table email add constraint few check (weight < 10)"],
  ["create unique index on email (key_id)"],
  ["drop index email_key"],
  ["drop function tell_of_emails()"],
  ["drop trigger note_ending on email"],
  ["do $$ begin alter table email drop column bulk; end $$"],
  ["create table kind (id int); alter table email drop column bulk"],
])("refused: %s", (text) => {
  expect(of(text)).toHaveLength(1);
});

test.each([
  ["create table kind (id int primary key, name text not null)"],
  ["create table kind (id int); alter table kind add b int not null; create unique index on kind (b)"],
  ["alter table email add column kind text"],
  ["alter table email add column kind text not null default 'a', add since timestamptz"],
  ["alter table email add column place bigint not null generated always as identity"],
  ["alter table email alter column bulk drop not null"],
  ["alter table email alter column bulk set default false"],
  ["create index on email (key_id)"],
  [
    "drop trigger note_ending on email; create trigger note_ending after update on email execute function f()",
  ],
  [
    "drop function f(int); create function f(int) returns int language sql as $$ select 1; drop table email $$",
  ],
  ["-- drop table email\ninsert into kind values ('drop table email')"],
])("taken: %s", (text) => {
  expect(of(text)).toEqual([]);
});

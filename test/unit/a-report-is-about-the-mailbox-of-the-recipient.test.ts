/** An address in a report is the recipient's own mailbox, under another form, or somebody's behind it. */
import { expect, test } from "vitest";
import { isMailboxOf } from "../../src/rules/samemailbox.ts";

test.each([
  ["bob@x.test", "bob@x.test"],
  ["bob@store.x.test", "bob@x.test"],
  ["bob@x.test", "bob@mail.x.test"],
  ["bob@x.test", "bob+tag@x.test"],
  ["bob+tag@x.test", "bob+tag@x.test"],
  ["bob@store.x.test", "bob+a+b@x.test"],
  ["bob@gmail.com", "bob@googlemail.com"],
  ["bob@gmail.com", "bob+shop@googlemail.com"],
  ["bobsmith@gmail.com", "bob.smith@gmail.com"],
  ["bob@yandex.ru", "bob@ya.ru"],
  ["bob@bücher.test", "bob@xn--bcher-kva.test"],
  ["bob@mail.bücher.test", "bob+tag@xn--bcher-kva.test"],
])("%s is the mailbox of %s", (reported, recipient) => {
  expect(isMailboxOf(reported, recipient)).toBe(true);
});

test.each([
  ["ann@x.test", "bob@x.test"],
  ["bob@y.test", "bob@x.test"],
  ["bob@y.test", "bob+tag@x.test"],
  ["tag@x.test", "bob+tag@x.test"],
  ["bob+other@x.test", "bob+tag@x.test"],
  ["bob+tag@x.test", "bob@x.test"],
  ["mary@x.test", "mary-ann@x.test"],
  ["bobsmith@x.test", "bob.smith@x.test"],
  ["bob@notx.test", "bob@x.test"],
  ["@x.test", "+tag@x.test"],
  ["bob@outlook.com", "bob@hotmail.com"],
  ["bob@gmail.com", "bob@yandex.ru"],
  ["bob@bucher.test", "bob@xn--bcher-kva.test"],
])("%s is somebody behind %s", (reported, recipient) => {
  expect(isMailboxOf(reported, recipient)).toBe(false);
});

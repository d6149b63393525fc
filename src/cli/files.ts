/** The files that commands are given. What is wrong with one is said in words, not in codes of the system. */
import { accessSync, constants, statSync } from "node:fs";
import { dirname } from "node:path";
import { codeOf, messageOf } from "../caught.ts";
import { CommandError } from "./print.ts";

/** Before it is read as a stream. */
export function expectReadable(file: string): void {
  try {
    accessSync(file, constants.R_OK);
  } catch (error) {
    throw new CommandError(whyUnreadable(file, error));
  }
  if (statSync(file).isDirectory()) throw new CommandError(`${file} is a folder.`);
}

export function whyUnreadable(file: string, error: unknown): string {
  const code = codeOf(error);
  if (code === "ENOENT") return `There is no file ${file}.`;
  if (code === "EISDIR") return `${file} is a folder.`;
  if (code === "EACCES") return `${file} cannot be read: this user may not read it.`;
  return `${file} cannot be read: ${messageOf(error)}.`;
}

export function whyUnwritable(file: string, error: unknown): string {
  return `${file} cannot be written: ${faultOfWriting(file, error)}.`;
}

function faultOfWriting(file: string, error: unknown): string {
  const code = codeOf(error);
  if (code === "ENOENT") return `there is no folder ${dirname(file)}`;
  if (code === "EISDIR") return "it is a folder";
  if (code === "EACCES") return "this user may not write it";
  if (code === "ENOSPC") return "the disk is full";
  return messageOf(error);
}

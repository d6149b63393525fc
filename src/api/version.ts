/**
 * A change that is made only to the version that its caller has read: what somebody else has saved meanwhile
 * is not replaced unseen.
 */
import Type from "typebox";
import { refuse } from "./problem.ts";

/** `version` of what was read is never 0; Postgres keeps it in 31 bits. */
export const IfVersion = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: 2_147_483_647,
    description: "the `version` that was read: if there is another by now, nothing is changed (409)",
  }),
);

export function expectVersion(wanted: number | undefined, version: number): void {
  if (wanted !== undefined && wanted !== version)
    throw refuse(
      "version_conflict",
      `Nothing was changed: \`if_version\` is ${wanted}, and this is version ${version} by now. Read it again.`,
    );
}

/** The order of the test files: the longest first, so that none of them is left when all others are done. */
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * In seconds, of the files that take longest. The others are short, and in the order that Vitest likes best.
 */
const SECONDS: Record<string, number> = {
  "test/fault/a-killed-worker-loses-nothing.test.ts": 92,
  "test/fault/bad-weather-loses-nothing.test.ts": 89,
  "test/fault/terminated-backends-end-no-process.test.ts": 89,
  "test/fault/direct-delivery-loses-nothing.test.ts": 87,
  "test/fault/a-pause-of-postgres-repeats-nothing.test.ts": 71,
  "test/fault/a-restart-repeats-nothing.test.ts": 56,
  "test/story/the-queue-shows-what-is-stuck.test.ts": 51,
  "test/fault/writers-never-deadlock.test.ts": 46,
  "test/fault/retention-holds-up-no-send.test.ts": 40,
  "test/story/the-command-line-manages-domains.test.ts": 39,
  "test/fault/a-tick-that-times-out-takes-smaller-steps.test.ts": 36,
  "test/attack/no-embedded-request-is-answered.test.ts": 36,
  "test/fault/a-dead-store-does-not-hold-up-the-end.test.ts": 35,
  "test/attack/a-workspace-writes-as-itself.test.ts": 29,
  "test/story/overload-refuses-and-lets-go.test.ts": 25,
  "test/fault/killed-workers-repeat-no-step.test.ts": 25,
  "test/fault/a-frozen-worker-is-replaced.test.ts": 24,
  "test/story/a-suspended-workspace-sends-nothing.test.ts": 24,
  "test/story/mail-is-signed-for-its-domain.test.ts": 24,
  "test/story/contacts-come-from-a-file.test.ts": 24,
  "test/story/start-leaves-nobody-behind.test.ts": 22,
  "test/story/the-command-line-manages-automations.test.ts": 21,
  "test/story/the-command-line-manages-workspaces.test.ts": 20,
  "test/story/start-keeps-roles-running.test.ts": 18,
  "test/fault/a-tick-runs-in-one-keeper-at-a-time.test.ts": 18,
  "test/attack/other-users-of-the-machine-reach-nothing.test.ts": 17,
  "test/story/bench-fails.test.ts": 15,
  "test/attack/commands-print-no-controls.test.ts": 15,
  "test/story/start-refuses-what-it-cannot-do.test.ts": 15,
  "test/story/last-use-of-a-key-shows.test.ts": 14,
  "test/fault/two-apis-keep-the-same-people.test.ts": 14,
  "test/story/the-command-line-tells-of-caps.test.ts": 13,
  "test/attack/no-key-reaches-another-workspace.test.ts": 13,
  "test/fault/a-fast-clock-freezes-no-cap.test.ts": 13,
  "test/story/one-command-starts-everything.test.ts": 13,
  "test/attack/a-json-bomb-holds-up-nobody.test.ts": 13,
  "test/story/mail-is-found-for-its-operator.test.ts": 12,
  "test/attack/slow-senders-are-cut.test.ts": 12,
  "test/story/bench-interrupted.test.ts": 12,
  "test/attack/large-sends-hold-up-no-neighbour.test.ts": 12,
  "test/story/a-large-audience-is-as-quick.test.ts": 11,
  "test/fault/erasing-holds-up-nobody.test.ts": 11,
  "test/story/relay-settles-whatever-the-peer-does.test.ts": 10,
  "test/fault/an-erasure-overtakes-the-delivery.test.ts": 10,
  "test/story/attachments-that-cannot-be-read-wait.test.ts": 10,
  "test/fuzz/strangers-do-not-stop-a-sender.test.ts": 10,
  "test/fuzz/healthy-senders-below-a-limit-are-let-go-on.test.ts": 5,
  "test/fuzz/caps.test.ts": 3,
  "test/fuzz/the-caps-we-ship-hold-what-they-promise.test.ts": 4,
  "test/unit/caps-summary.test.ts": 2,
  "test/unit/survive.test.ts": 2,
  "test/fuzz/a-qr-code-is-read-by-others.test.ts": 3,
  "test/unit/a-verdict-hears-who-is-meant.test.ts": 2,
};

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const root = this.ctx.config.root;
    const seconds = ({ moduleId }: TestSpecification) => SECONDS[relative(root, moduleId)] ?? 0;
    return (await super.sort(files)).sort((a, b) => seconds(b) - seconds(a));
  }
}

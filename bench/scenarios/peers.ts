/**
 * peers: other ways to take the same mail and bring it to the same sink, one after the other on the same
 * machine, each of which commits before it answers: Postfix, Haraka, and the usual stack of
 * bench/peers/usual. What is not installed is skipped with a word; the configurations are in the report.
 */
import { haraka } from "../peers/haraka.ts";
import { measure, NotHere } from "../peers/peer.ts";
import { postfix } from "../peers/postfix.ts";
import { usual } from "../peers/usual.ts";
import type { Result, Scenario } from "../scenario.ts";

const peers: Scenario = {
  name: "peers",
  does: "the same mail to the same sink through Postfix, Haraka and the usual stack",
  async run(bench, run) {
    const all: Required<Result> = { figures: [], distributions: [], courses: [], exhibits: [], skipped: [] };
    for (const peer of [postfix, haraka, usual]) {
      try {
        const { figures, courses = [], exhibits = [] } = await measure(peer, bench, run);
        all.figures.push(...figures);
        all.courses.push(...courses);
        all.exhibits.push(...exhibits);
      } catch (error) {
        if (!(error instanceof NotHere)) throw error;
        all.skipped.push(`${peer.name}: ${error.message}`);
      }
    }
    return all;
  },
};

export const scenarios = [peers];

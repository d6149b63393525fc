/**
 * A sink on smtp-server as a process of its own: takes every mail and counts it. PROVIDERS says how it behaves to the
 * mail of each domain; what they do not name is taken at once. Plain JavaScript, so that it starts at once.
 */
import { SMTPServer } from "smtp-server";

const TELL_EVERY_MS = 50;
const SEED = 7;
const providers = new Map(JSON.parse(process.env.PROVIDERS ?? "[]").map((one) => [one.domain, one]));
let taken = 0;
let told = 0;
let state = SEED;

/** A number in [0, 1); the same ones in every run. */
function draw() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
}

function providerOf(address) {
  return providers.get(address.slice(address.lastIndexOf("@") + 1));
}

function refusal(responseCode, text) {
  return Object.assign(new Error(text), { responseCode });
}

const server = new SMTPServer({
  disabledCommands: ["AUTH", "STARTTLS"],
  authOptional: true,
  disableReverseLookup: true,
  logger: false,
  maxClients: 2_000,
  closeTimeout: 200,
  onRcptTo({ address }, _session, done) {
    const provider = providerOf(address);
    if (!provider) return done();
    const drawn = draw() * 100;
    if (drawn < provider.deferPercent) return done(refusal(451, "4.7.1 greylisted, try again later"));
    if (drawn < provider.deferPercent + provider.refusePercent)
      return done(refusal(550, "5.1.1 no such user"));
    done();
  },
  onData(stream, session, done) {
    stream.resume();
    stream.once("end", () => {
      const provider = providerOf(session.envelope.rcptTo[0]?.address ?? "");
      const take = () => {
        taken++;
        done(null, "2.0.0 Ok");
      };
      if (!provider) return take();
      const [least, most] = provider.replyMs;
      setTimeout(take, least + draw() * (most - least));
    });
  },
});
server.on("error", () => {}); // a client that goes away is its own affair
server.listen(0, "127.0.0.1", () => process.send({ port: server.server.address().port }));
setInterval(() => {
  if (taken !== told && process.connected) process.send({ taken });
  told = taken;
}, TELL_EVERY_MS);
process.once("disconnect", () => process.exit(0));
process.on("SIGTERM", () => process.exit(0));

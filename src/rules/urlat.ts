/** The URL at which this machine reaches somebody who listens on `host`: IPv6 addresses stand in brackets. */
export function urlAt(host: string, port: number | null, scheme = "http"): string {
  return `${scheme}://${EVERYWHERE[host] ?? (host.includes(":") ? `[${host}]` : host)}:${port}`;
}

const EVERYWHERE: Record<string, string> = { "0.0.0.0": "127.0.0.1", "::": "[::1]" };

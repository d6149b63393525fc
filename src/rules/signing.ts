/** The algorithms of DKIM that we sign with (RFC 6376, RFC 8463). */
export type Algorithm = "rsa" | "ed25519";

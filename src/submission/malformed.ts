/** A message that cannot be an e-mail of the API; `reason` is what its sender hears. */
export class Malformed extends Error {}

/** Permissions of a key: a set kept as bits, since it is asked on every request. */
import { isOneOf } from "../names.ts";
export const PERMISSIONS = [
  "full",
  "contacts:read",
  "contacts:write",
  "emails:send",
  "templates:read",
  "templates:write",
  "events:write",
] as const;
export type Permission = (typeof PERMISSIONS)[number];

export const PRESETS = {
  full: { name: "Full access", permissions: ["full"] },
  audience: { name: "Audience key", permissions: ["contacts:write"] },
  sending: { name: "Sending only", permissions: ["emails:send"] },
} as const satisfies Record<string, { name: string; permissions: readonly Permission[] }>;

const bitOf: Record<Permission, number> = {
  full: 1,
  "contacts:read": 2,
  "contacts:write": 4,
  "emails:send": 8,
  "templates:read": 16,
  "templates:write": 32,
  "events:write": 64,
};

export function toBits(permissions: readonly Permission[]): number {
  let bits = 0;
  for (const permission of permissions) bits |= bitOf[permission];
  return bits;
}

export function fromBits(bits: number): Permission[] {
  return PERMISSIONS.filter((permission) => (bits & bitOf[permission]) !== 0);
}

export function allows(bits: number, permission: Permission): boolean {
  const wanted =
    permission === "templates:read" ? bitOf["templates:read"] | bitOf["templates:write"] : bitOf[permission];
  return (bits & (wanted | bitOf.full)) !== 0;
}

export function isPermission(text: string): text is Permission {
  return isOneOf(PERMISSIONS, text);
}

/** What the fence says to whoever writes rows of a workspace that is moving to another cell. */
const MOVING = "23W01";

/** Nothing was written; soon the workspace goes on, here or in another cell. */
export function isMoving(error: unknown): boolean {
  for (let one = error; one instanceof Error; one = one.cause)
    if ((one as { code?: unknown }).code === MOVING) return true;
  return false;
}

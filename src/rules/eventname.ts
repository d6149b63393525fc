/** What an event may be called. */
export const EVENT_NAME = "^[A-Za-z0-9.:_-]{1,100}$";
export const EVENT_NAME_WORDS = "1 to 100 ASCII letters, digits, `.`, `:`, `_` or `-`";

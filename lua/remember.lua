--[[
remember: keep what the record says of one key and its workspace, for a minute.

Promises: an older copy never replaces a newer one: neither is stored when its version is lower than the one held; a
key marked revoked stays so until that mark expires, whatever a load that was in flight brings, and a workspace marked
suspended as well. A copy that says
`revoked` is never too old to be stored: that is for ever.

KEYS key_record workspace_record
ARGV now:number lives_ms:number version:number key_state key_id permissions audiences key_stream workspace_id plan minute_scope per_second:number per_minute:number day_limit month_limit cap_day cap_hour reserved_share streams suspended
REPLY 1 when the key is stored, 0 when it stays revoked, 2 when the copy is older than what is held: load it again
]]
-- @include clock
now = clock(now)

local held = redis.call('HMGET', workspace_record, 'version', 'marked')
if not held[1] or tonumber(held[1]) <= version then
  if held[2] and tonumber(held[2]) >= version then suspended = '1' end
  redis.call('HSET', workspace_record, 'version', version, 'until', now + lives_ms, 'id', workspace_id, 'plan', plan,
    'minute_scope', minute_scope, 'per_second', per_second, 'per_minute', per_minute, 'day_limit', day_limit,
    'month_limit', month_limit, 'cap_day', cap_day, 'cap_hour', cap_hour, 'reserved_share', reserved_share,
    'streams', streams, 'suspended', suspended)
  redis.call('PEXPIRE', workspace_record, lives_ms)
end

if redis.call('HGET', key_record, 'state') == 'revoked' then return 0 end
if held[1] and tonumber(held[1]) > version and key_state ~= 'revoked' then return 2 end
redis.call('HSET', key_record, 'state', key_state, 'until', now + lives_ms, 'id', key_id, 'permissions', permissions,
  'audiences', audiences, 'stream', key_stream)
redis.call('PEXPIRE', key_record, lives_ms)
return 1

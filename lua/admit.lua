--[[
admit: who is asking, and for how many of these requests has their rate room?

Promises: looks up key and workspace, checks the second and the minute together and only then counts both, so a
refused request is not counted. Of several requests the first are admitted, as if each had come alone. Windows are
fixed, aligned to UTC, and only move forward: a clock that steps back a little counts in the newest window seen. If it
steps back further, what that window counted counts in the present one, so nobody waits for the time to come again. A
record older than its `until` is treated as absent; expiry merely cleans up.
Refuses: nothing by itself when a record is absent; the caller loads it from the record and asks again.

KEYS key_record workspace_record key_rates workspace_rates
ARGV now:number requests:number
REPLY {'miss'} | {'revoked'}
    | {'known', key id, permissions, audiences, workspace id, plan, version, requests admitted,
       limit, remaining after them, seconds to reset, seconds until the others may retry, '1' when suspended,
       stream of the key, streams of the workspace, the window of the limit: 'second' or 'minute'}
]]
-- @include clock
now = clock(now)

local key = redis.call('HMGET', key_record, 'state', 'until', 'id', 'permissions', 'audiences', 'stream')
if key[1] == 'revoked' then return { 'revoked' } end
if not key[1] or tonumber(key[2]) < now then return { 'miss' } end
local ws = redis.call('HMGET', workspace_record, 'until', 'id', 'plan', 'version', 'minute_scope', 'per_second', 'per_minute',
  'suspended', 'streams')
if not ws[1] or tonumber(ws[1]) < now then return { 'miss' } end
-- stored by an older version
if not key[6] or not ws[9] then return { 'miss' } end

local minute_key = key_rates
if ws[5] == 'workspace' then minute_key = workspace_rates end

local function window(rates, name, field, width, limit)
  local stored = redis.call('HMGET', rates, field, field .. 'n')
  local start, used = math.floor(now / width), 0
  local newest = tonumber(stored[1]) or 0
  if newest >= start then
    used = tonumber(stored[2])
    if newest == start + 1 then start = newest end
  end
  return { rates = rates, name = name, field = field, start = start, used = used, limit = limit, width = width, ends = (start + 1) * width }
end

local second = window(key_rates, 'second', 's', 1000, tonumber(ws[6]))
local minute = window(minute_key, 'minute', 'm', 60000, tonumber(ws[7]))

local function left(w) return math.max(0, w.limit - w.used) end
local function count(w, admitted)
  w.used = w.used + admitted
  redis.call('HSET', w.rates, w.field, w.start, w.field .. 'n', w.used)
  redis.call('PEXPIRE', w.rates, 2 * w.width)
end

local admitted = math.min(requests, left(second), left(minute))
if admitted > 0 then
  count(second, admitted)
  count(minute, admitted)
end

local function seconds(at) return math.max(1, math.ceil((at - now) / 1000)) end

-- of two as near the one that ends later: after a step back of the clock and a change of plan that may be the second
local nearest = minute
local nearer = left(minute) - left(second)
if nearer > 0 or (nearer == 0 and second.ends > minute.ends) then nearest = second end
local retry = 0
if admitted < requests then
  local free_at = 0
  if left(second) == 0 then free_at = second.ends end
  if left(minute) == 0 then free_at = math.max(free_at, minute.ends) end
  retry = seconds(free_at)
end

return { 'known', key[3], key[4], key[5], ws[2], ws[3], ws[4], admitted,
  nearest.limit, left(nearest), seconds(nearest.ends), retry, ws[8] or '', key[6], ws[9], nearest.name }

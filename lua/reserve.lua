--[[
reserve: is there quota for these e-mails, and how many of them may go now?

Promises: quota of day and month is all or nothing; the caps grant the longest run of e-mails from the first on, and
none when others of the stream already wait; what is granted is counted here at once and kept under the reservation's
id, so that the same call again answers the same and refund.lua can undo exactly this grant. A request that runs under the
same idempotency key right now keeps this one from reserving anything.
Refuses: to have the last word. The ledger row in the commit has it; these counters may be lost, old or wrong.

KEYS workspace_record use reservation claim
ARGV now:number lives_ms:number digest claim_ms:number counted:number counts_day:number bulk:number stream weights
REPLY {'miss'} | {'cold'} | {'running'} | {'conflict'} | {'over', epoch} | {'ok', epoch, e-mails that go now}
]]
-- @include clock
-- @include windows
now = clock(now)

local known = redis.call('HMGET', reservation, 'epoch', 'go')
if known[1] then return { 'ok', known[1], tonumber(known[2]) } end

if digest ~= '' then
  local held = redis.call('GET', claim)
  if held then
    if held ~= digest then return { 'conflict' } end
    return { 'running' }
  end
end

local ws = redis.call('HMGET', workspace_record, 'until', 'day_limit', 'month_limit', 'cap_day', 'cap_hour', 'reserved_share',
  'streams')
if not ws[1] or tonumber(ws[1]) < now then return { 'miss' } end
local streams = ws[7] and read_streams(ws[7]) or {}
local w = open_windows(use, now, streams)
if not w then return { 'cold' } end

local day_limit = tonumber(ws[2]) -- nil: none
if counts_day == 1 and day_limit and w.day_used + counted > day_limit then return { 'over', w.epoch } end
if w.month_used + counted > tonumber(ws[3]) then return { 'over', w.epoch } end

local cap_day, cap_hour, share = tonumber(ws[4]), tonumber(ws[5]), tonumber(ws[6])
local function part(cap, kept)
  if kept >= 1 then return 0 end
  return math.min(cap, math.max(50, math.floor(cap * (1 - kept))))
end

-- what other streams of a kind have reserved of a part and not used, as long as one e-mail finds room
local function reserved(field, of, kind)
  local kept = 0
  for _, one in ipairs(streams) do
    if one.bulk == kind and one.name ~= stream then
      kept = kept + math.max(0, math.floor(of * math.min(one.reserved, one.most)) - one[field])
    end
  end
  return math.min(kept, math.max(0, of - 50))
end

local function room_in(field, cap, used, used_by_bulk)
  local room = cap - used - reserved(field, cap, 0)
  if bulk == 1 then
    local of_bulk = part(cap, share)
    room = math.min(room, of_bulk - used_by_bulk - reserved(field, of_bulk, 1))
  end
  local own = bulk == 1 and stream == '' and used_by_bulk or 0
  local most = 1
  for _, one in ipairs(streams) do
    if one.name == stream then own = one[field] end
    if stream == '' and bulk == 1 and one.bulk == 1 then own = own - one[field] end
    if one.name == stream or (stream == '' and bulk == 1 and one.name == 'bulk') then most = one.most end
  end
  if most < 1 then room = math.min(room, part(cap, 1 - most) - own) end
  return room
end

local room = math.min(room_in('day', cap_day, w.cap_day_used, w.cap_day_bulk),
  room_in('hour', cap_hour, w.hour_used, w.hour_bulk))
local waits = bulk == 1 and w.waiting_bulk or w.waiting
for _, one in ipairs(streams) do
  if stream == '' and one.bulk == bulk then waits = waits - one.waiting end
end
for _, one in ipairs(streams) do
  if one.name == stream then waits = one.waiting end
end
if waits > 0 then room = 0 end

local go, granted = 0, 0
for weight in string.gmatch(weights, '%d+') do
  weight = tonumber(weight)
  if granted + weight > room then break end
  go, granted = go + 1, granted + weight
end

local slot = w.bucket % SLOTS
redis.call('HINCRBY', use, 'month_used', counted)
if counts_day == 1 then redis.call('HINCRBY', use, 'day_used', counted) end
if granted > 0 then
  redis.call('HINCRBY', use, 'cap_day_used', granted)
  redis.call('HINCRBY', use, 'hour_used', granted)
  redis.call('HINCRBY', use, 'u' .. slot, granted)
  if bulk == 1 then
    redis.call('HINCRBY', use, 'cap_day_bulk', granted)
    redis.call('HINCRBY', use, 'hour_bulk', granted)
    redis.call('HINCRBY', use, 'b' .. slot, granted)
  end
  if stream ~= '' then
    redis.call('HINCRBY', use, 'd:' .. stream, granted)
    redis.call('HINCRBY', use, 'n' .. slot .. ':' .. stream, granted)
  end
end
redis.call('HSET', reservation, 'epoch', w.epoch, 'go', go, 'month', w.month, 'day', w.day, 'bucket', w.bucket,
  'counted', counted, 'counts_day', counts_day, 'bulk', bulk, 'stream', stream, 'granted', granted)
redis.call('PEXPIRE', reservation, lives_ms)
if digest ~= '' then
  redis.call('SET', claim, digest, 'PX', claim_ms)
end
return { 'ok', w.epoch, go }

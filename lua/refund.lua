--[[
refund: undo one reservation, once.

Promises: takes back exactly what reserve.lua counted under this id, in windows that are still the same and only in
counters of the same epoch; the second call finds nothing to undo. The idempotency key is free again.

KEYS use reservation claim
ARGV frees_claim:number
REPLY 1 when undone, 0 when there was nothing to undo
]]
-- @include windows
if frees_claim == 1 then redis.call('DEL', claim) end
local f = redis.call('HMGET', reservation, 'epoch', 'month', 'day', 'bucket', 'counted', 'counts_day', 'bulk', 'granted', 'stream')
if not f[1] then return 0 end
redis.call('DEL', reservation)
local held = redis.call('HMGET', use, 'epoch', 'month', 'day', 'bucket')
if held[1] ~= f[1] then return 0 end

local counted, granted, bucket = tonumber(f[5]), tonumber(f[8]), tonumber(f[4])
if held[2] == f[2] then redis.call('HINCRBY', use, 'month_used', 0 - counted) end
local same_day = held[3] == f[3]
if same_day and f[6] == '1' then redis.call('HINCRBY', use, 'day_used', 0 - counted) end
if granted > 0 then
  local bulk, stream = f[7] == '1', f[9]
  if same_day then
    redis.call('HINCRBY', use, 'cap_day_used', 0 - granted)
    if bulk then redis.call('HINCRBY', use, 'cap_day_bulk', 0 - granted) end
    if stream ~= '' then redis.call('HINCRBY', use, 'd:' .. stream, 0 - granted) end
  end
  if tonumber(held[4]) - bucket < SLOTS then
    redis.call('HINCRBY', use, 'hour_used', 0 - granted)
    redis.call('HINCRBY', use, 'u' .. bucket % SLOTS, 0 - granted)
    if bulk then
      redis.call('HINCRBY', use, 'hour_bulk', 0 - granted)
      redis.call('HINCRBY', use, 'b' .. bucket % SLOTS, 0 - granted)
    end
    if stream ~= '' then redis.call('HINCRBY', use, 'n' .. bucket % SLOTS .. ':' .. stream, 0 - granted) end
  end
end
return 1

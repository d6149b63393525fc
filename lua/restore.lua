--[[
restore: counters of a workspace from its ledger row, under a new epoch.

Promises: replaces what is held only when nothing is held or what is held is the doubted epoch, so of many that
restore at once the first does. Reservations of the older epoch can no longer be refunded into the new counters.

KEYS use
ARGV doubted epoch month month_used day day_used cap_day_used cap_day_bulk bucket hour_used hour_bulk waiting waiting_bulk slots lives_ms:number
REPLY 1 when restored, 0 when other counters were already there
]]
local held = redis.call('HGET', use, 'epoch')
if held and held ~= doubted then return 0 end
redis.call('DEL', use)
redis.call('HSET', use, 'epoch', epoch, 'month', month, 'month_used', month_used, 'day', day, 'day_used', day_used,
  'cap_day_used', cap_day_used, 'cap_day_bulk', cap_day_bulk, 'bucket', bucket, 'hour_used', hour_used,
  'hour_bulk', hour_bulk, 'waiting', waiting, 'waiting_bulk', waiting_bulk)
for field, value in string.gmatch(slots, '(%S+)=(%d+)') do redis.call('HSET', use, field, value) end
redis.call('PEXPIRE', use, lives_ms)
return 1

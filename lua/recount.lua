--[[
recount: the record knows how many bags of each workspace really stand in line; the counts here may have drifted.

Promises: only touches counts of the epoch that was counted under. A workspace that is not named has none in line.

KEYS epoch fairness
ARGV counted_epoch counts
REPLY 1 when corrected, 0 when the epoch has changed
]]
if redis.call('GET', epoch) ~= counted_epoch then return 0 end
local named, total = {}, 0
for workspace, count in string.gmatch(counts, '(%S+)=(%d+)') do
  named[workspace] = count
  total = total + tonumber(count)
  redis.call('HSET', fairness, 'n:' .. workspace, count)
end
local fields = redis.call('HKEYS', fairness)
for _, field in ipairs(fields) do
  local workspace = string.match(field, '^n:(.+)$')
  if workspace and not named[workspace] then redis.call('HDEL', fairness, field, 'tag:' .. workspace) end
end
redis.call('HSET', fairness, 'in_line', total)
return 1

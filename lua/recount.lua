--[[
recount: the record knows how many bags of some workspaces really stand in line; the counts here may have drifted.

Promises: only touches counts of the epoch that was counted under, and only those of workspaces that are named. What
stands in line in all changes by as much as they do. A workspace with nothing in line costs no memory.

KEYS epoch fairness
ARGV counted_epoch counts
REPLY 1 when corrected, 0 when the epoch has changed
]]
if redis.call('GET', epoch) ~= counted_epoch then return 0 end
local more = 0
for workspace, count in string.gmatch(counts, '(%S+)=(%d+)') do
  more = more + tonumber(count) - tonumber(redis.call('HGET', fairness, 'n:' .. workspace) or 0)
  if count == '0' then redis.call('HDEL', fairness, 'n:' .. workspace, 'tag:' .. workspace)
  else redis.call('HSET', fairness, 'n:' .. workspace, count) end
end
local in_line = tonumber(redis.call('HGET', fairness, 'in_line') or 0)
redis.call('HSET', fairness, 'in_line', math.max(0, in_line + more))
return 1

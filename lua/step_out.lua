--[[
step_out: bags have left the line of their shard: their workspaces have room again.

Promises: counts never fall below zero; a workspace with nothing in line costs no memory.

KEYS fairness
ARGV workspaces
REPLY bags still in line
]]
local out = 0
for workspace in string.gmatch(workspaces, '%S+') do
  local left = redis.call('HINCRBY', fairness, 'n:' .. workspace, -1)
  if left <= 0 then redis.call('HDEL', fairness, 'n:' .. workspace, 'tag:' .. workspace) end
  if left >= 0 then out = out + 1 end
end
-- not `-out`: the negative of zero is sent as "-0", which HINCRBY refuses
local in_line = redis.call('HINCRBY', fairness, 'in_line', 0 - out)
if in_line < 0 then
  redis.call('HSET', fairness, 'in_line', 0)
  in_line = 0
end
return in_line

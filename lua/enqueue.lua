--[[
enqueue: where do these bags stand in the line of their shard?

Fair queueing: a bag begins at the later of the virtual time and the end of its workspace's last bag, takes as long as
its e-mails, and its place is where it ends. So within a workspace it is first come, first served; a few e-mails of a
quiet workspace end before the next hundred of all others, however many these are; and nobody starves. The virtual time
is where the bag at the head of the line began, or more, since it never goes back.

Promises: at most `workspace_max` bags of one workspace and `shard_max` in all stand in line; what is over gets tag 0
and stays in the record until there is room. The epoch is made here when the shard has none: whoever finds another
epoch than before knows that the line was lost. Tags that grow too large for the queue are all lowered together.

KEYS epoch fairness line
ARGV new_epoch workspace_max:number shard_max:number bags
REPLY {epoch, tag of each bag or 0}
]]
local TAG_MAX, SCORE_OF_TAG = 2000000, 4294967296
-- a full bag takes 20
local EMAILS_OF_ONE, COST_MAX = 5, 20

local current = redis.call('GET', epoch)
if not current then
  redis.call('DEL', fairness)
  redis.call('SET', epoch, new_epoch)
  current = new_epoch
end

local head = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
local virtual = tonumber(redis.call('HGET', fairness, 'virtual') or 0)
if head[2] then virtual = math.max(virtual, math.floor(tonumber(head[2]) / SCORE_OF_TAG) - COST_MAX) end

if virtual > TAG_MAX / 2 then
  local shift = virtual - 1
  for _, member in ipairs(redis.call('ZRANGE', line, 0, -1)) do
    redis.call('ZINCRBY', line, (1 - virtual) * SCORE_OF_TAG, member)
  end
  local fields = redis.call('HGETALL', fairness)
  for n = 1, #fields, 2 do
    if string.sub(fields[n], 1, 4) == 'tag:' then
      redis.call('HSET', fairness, fields[n], math.max(0, tonumber(fields[n + 1]) - shift))
    end
  end
  virtual = 1
end
redis.call('HSET', fairness, 'virtual', virtual)

local reply = { current }
local in_line = tonumber(redis.call('HGET', fairness, 'in_line') or 0)
for workspace, emails in string.gmatch(bags, '(%S+)=(%d+)') do
  local held = redis.call('HMGET', fairness, 'tag:' .. workspace, 'n:' .. workspace)
  local begin = math.max(virtual, math.floor(tonumber(held[1] or 0)))
  local tag = begin + math.min(COST_MAX, math.max(1, math.ceil(tonumber(emails) / EMAILS_OF_ONE)))
  local count = tonumber(held[2] or 0)
  if count >= workspace_max or in_line >= shard_max or tag > TAG_MAX then
    reply[#reply + 1] = 0
  else
    redis.call('HSET', fairness, 'tag:' .. workspace, tag, 'n:' .. workspace, count + 1)
    in_line = in_line + 1
    reply[#reply + 1] = tag
  end
end
redis.call('HSET', fairness, 'in_line', in_line)
return reply

--[[
attempt: may this be tried once more?

Promises: counts the attempt, also one that is refused. The span begins with its first attempt, and then all of them are
forgotten at once.

KEYS attempts
ARGV most:number span_ms:number
REPLY 0 when it may, else ms until the span ends
]]
local made = redis.call('INCR', attempts)
if made == 1 then redis.call('PEXPIRE', attempts, span_ms) end
if made <= most then return 0 end
return math.max(1, redis.call('PTTL', attempts))

--[[
rights: may this user give in a script each kind of command that ours give?

Promises: writes to one key of its own, and leaves nothing behind.

KEYS probe
ARGV
REPLY the time
]]
redis.call('DEL', probe)
redis.call('SET', probe, '1', 'PX', 1000)
redis.call('DEL', probe)
redis.call('HSET', probe, 'a', '1')
redis.call('PEXPIRE', probe, 1000)
redis.call('DEL', probe)
redis.call('ZADD', probe, 1, 'a')
redis.call('DEL', probe)
redis.call('LPUSH', probe, 'a')
redis.call('DEL', probe)
redis.call('XADD', probe, '*', 'a', '1')
redis.call('DEL', probe)
return redis.call('TIME')

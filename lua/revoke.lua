--[[
revoke: the key is dead from the next request on.

Promises: the mark outlives every copy of the key that could still be on its way here.

KEYS key_record
ARGV lives_ms:number
REPLY 1
]]
redis.call('DEL', key_record)
redis.call('HSET', key_record, 'state', 'revoked')
redis.call('PEXPIRE', key_record, lives_ms)
return 1

"""Messages that decoding and encoding would change: numbers, escapes, the order of keys."""

from __future__ import annotations

ODD = (
    rb'{"sessionId":"accord-check","zeta":1.0,"alpha":[1e-7,-0.0,9007199254740993,'
    rb'12345678901234567890,0.1000000000000000055],"\u00e9":"\u00e9\/","nested":{"b":null,"a":{}},'
    rb'"_meta":{"accord-check/trace":[1.50,null,{"z":1,"a":2}]},"later":true}'
)
ODD_RESULT = (
    rb'{"zeta":[1.0,{"b":1,"a":null}],"_meta":{"accord-check/z":9007199254740993},"a":"\/"}'
)
ODD_ERROR = rb'{"code":-31999,"message":"No \u00e9","data":{"z":1.0,"a":[null,9007199254740993]}}'
# As a conductor answers when the successor has exited (R-PROXY-17).
EXITED = rb'{"code":-32603,"message":"The component exited","data":{"component":"agent"}}'

# Methods that no proxy changes.
CUSTOM = "_accord-check/probe"
UNKNOWN = "accord-check/unknown"

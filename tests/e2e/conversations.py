"""Chats as clients send them, to render through every template: (name, variables)."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a place.\nNow.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name of the \"city\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}},
        "required": ["city"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Sucht <b>Texte</b> & Bücher",
    "parameters": {"type": "object", "properties": {
        "query": {"type": "string", "description": "what"},
        "limit": {"type": "integer", "description": "how many", "default": 10},
        "exact": {"type": "boolean", "description": "", "nullable": True},
        "weight": {"type": "number", "description": "0.5 or so"},
        "where": {"type": "object", "description": "nested", "properties": {
            "lang": {"type": "string", "description": "code"}}}},
        "required": ["query", "limit"]}}}
BARE = {"type": "function", "function": {"name": "ping", "description": "No arguments",
                                         "parameters": {"type": "object", "properties": {}}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, ident="123456789"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, ident="123456789", name="get_weather"):
    return {"role": "tool", "content": text, "tool_call_id": ident, "name": name}


HI = user("Hi!")
HELLO = assistant("Hello. How can I help?")
ASK = user("What is the weather in Zürich?")
CALL = assistant("", tool_calls=[call("get_weather", {"city": "Zürich", "unit": "celsius"})])
CALL_NO_CONTENT = {"role": "assistant",
                   "tool_calls": [call("get_weather", {"city": "Bern"})]}
CALL_NULL = assistant(None, tool_calls=[call("get_weather", {"city": "Bern"})])
CALL_TEXT = assistant("", tool_calls=[call("get_weather", '{"city": "Bern"}')])
CALL_SAID = assistant("Let me look.", tool_calls=[call("search", {"query": "x", "limit": 2})])
PARALLEL = assistant("", tool_calls=[call("get_weather", {"city": "Zürich"}, "aaaaaaaaa"),
                                     call("search", {"query": "\"q\"\n", "limit": 3}, "bbbbbbbbb")])
ANSWER = assistant("It is 12 °C.")
THOUGHT = assistant("<think>\nI should greet.\n</think>\n\nHello there.")
REASONED = assistant("Hello there.", reasoning_content="I should greet.", thinking="I should greet.")
LONG = "".join(f"Line {i}: the quick brown fox — ünïcödé 日本語 😀\n" for i in range(2000))
TRICKY = ["{{ 7 * 7 }} {% if x %} {# c #} <|im_end|> [/INST] </s> <|eot_id|>", "a\r\nb\tc\u2028d\u00a0",
          "'\"\\n\\\\ \x01\x7f", "</think> middle <think>", "<tool_response>\nx\n</tool_response>",
          "  leading and trailing  \n\n", "/no_think please", "{}", "%s %d", "\u200b\ufeff\U0001F468\u200d\U0001F469"]


def messages():
    """(name, messages, tools or None)"""
    yield "one", [HI], None
    yield "system", [system("Be brief."), HI], None
    yield "empty system", [system(""), HI], None
    yield "two turns", [HI, HELLO, user("Thanks")], None
    yield "system and turns", [system("Be brief."), HI, HELLO, user("More"), HELLO, user("Bye")], None
    yield "ends with assistant", [HI, HELLO], None
    yield "many turns", [m for i in range(20) for m in (user(f"q{i}"), assistant(f"a{i}"))] + [HI], None
    yield "empty user", [user("")], None
    yield "empty assistant", [HI, assistant(""), HI], None
    yield "blank", [user(" \n ")], None
    yield "long", [system(LONG[:5000]), user(LONG)], None
    yield "long answer", [HI, assistant(LONG), HI], None
    for i, text in enumerate(TRICKY):
        yield f"tricky {i}", [system(text), user(text), assistant(text), user(text)], None
    yield "one tool", [ASK], [WEATHER]
    yield "tool and system", [system("Use tools."), ASK], [WEATHER]
    yield "three tools", [system("Use tools."), ASK], [WEATHER, SEARCH, BARE]
    yield "bare tool", [HI], [BARE]
    yield "no tools", [HI], []
    yield "call", [ASK, CALL], [WEATHER]
    yield "call and result", [ASK, CALL, result("12 °C")], [WEATHER]
    yield "call, result, answer", [ASK, CALL, result("12"), ANSWER, user("Danke")], [WEATHER]
    yield "call without tools", [ASK, CALL, result("12"), ANSWER], None
    yield "call without content", [ASK, CALL_NO_CONTENT, result("12")], [WEATHER]
    yield "call with null", [ASK, CALL_NULL, result("12")], [WEATHER]
    yield "arguments as text", [ASK, CALL_TEXT, result("12")], [WEATHER]
    yield "call and text", [ASK, CALL_SAID, result("12", name="search")], [SEARCH]
    yield "parallel calls", [ASK, PARALLEL, result("12", "aaaaaaaaa"),
                             result('{"found": [1, 2]}', "bbbbbbbbb", "search")], [WEATHER, SEARCH]
    yield "parallel, answered", [ASK, PARALLEL, result("12", "aaaaaaaaa"), result("1", "bbbbbbbbb"),
                                 ANSWER, user("ok")], [WEATHER, SEARCH]
    yield "two rounds", [ASK, CALL, result("12"), CALL_SAID, result("x"), ANSWER], [WEATHER, SEARCH]
    yield "result as object", [ASK, CALL, result({"t": 12, "u": [1.5, None, True]})], [WEATHER]
    yield "result as list", [ASK, CALL, result([{"type": "text", "text": "12"}])], [WEATHER]
    yield "short ids", [ASK, assistant("", tool_calls=[call("f", {}, "1")]), result("x", "1")], [BARE]
    yield "no ids", [ASK, assistant("", tool_calls=[{"function": {"name": "ping", "arguments": {}}}]),
                     {"role": "tool", "content": "pong"}], [BARE]
    yield "flat call", [ASK, assistant("", tool_calls=[{"name": "ping", "arguments": {}}])], [BARE]
    yield "empty calls", [HI, assistant("x", tool_calls=[]), HI], None
    yield "null calls", [HI, assistant("x", tool_calls=None), HI], None
    yield "thought in history", [HI, THOUGHT, user("And?")], None
    yield "thought at the end", [HI, THOUGHT], None
    yield "reasoning in history", [HI, REASONED, user("And?")], None
    yield "reasoning and call", [ASK, assistant("", reasoning_content="hm", thinking="hm",
                                                tool_calls=CALL["tool_calls"]), result("1")], [WEATHER]
    yield "parts", [user([{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}])], None
    yield "image part", [user([{"type": "image"}, {"type": "text", "text": "What?"}])], None
    yield "starts with assistant", [HELLO, HI], None
    yield "user twice", [HI, HI], None
    yield "system later", [HI, system("Now be rude."), HI], None
    yield "system twice", [system("a"), system("b"), HI], None
    yield "system only", [system("a")], None
    yield "unknown role", [HI, {"role": "critic", "content": "no"}], None
    yield "developer", [{"role": "developer", "content": "Be brief."}, HI], None
    yield "result first", [result("12"), HI], None
    yield "no content", [{"role": "user"}], None
    yield "null content", [user(None)], None
    yield "number content", [user(5)], None
    yield "none at all", [], None
    yield "extra fields", [{"role": "user", "content": "x", "name": "Ann", "items": [1]}], None


SWITCHES = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "enable_thinking": True, "thinking": True,
     "reasoning_effort": "high", "date_string": "1 Jan 2025", "builtin_tools": ["browser", "python"],
     "documents": [{"title": "T", "text": "x <y>"}], "controls": {"length": "long"}},
]


def conversations():
    for name, chat, tools in messages():
        for i, switches in enumerate(SWITCHES):
            variables = {"messages": chat, "bos_token": "<s>", "eos_token": "</s>", **switches}
            if tools is not None:
                variables["tools"] = tools
            yield f"{name} / {i}", variables

"""How text is cut into words, against another engine for regular expressions (python3-regex).

The patterns are written out here from what the models' authors published; nothing is shared with the
list in the C code.
"""
import os
import random
import subprocess

import pytest
import regex

import pages

TOOL = os.path.join(os.environ.get("QUIRE_TOOLS", "build/tools"), "splits")

S = r"\p{White_Space}"
NOT_S = r"[^\p{White_Space}]"
SHORT = "'s|'t|'re|'ve|'m|'ll|'d"
ANY = f"(?i:{SHORT})"
SPACES = rf"{S}+(?!{NOT_S})|{S}+"
LINES = rf"{S}*[\r\n]+|{SPACES}"
MARKS = rf" ?[^{S}\p{{L}}\p{{N}}]+"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
GPT2 = rf"{SHORT}| ?\p{{L}}+| ?\p{{N}}+|{MARKS}|{SPACES}"


def like_llama3(digits, begin=ANY + "|", lines=rf"[\r\n]*|{LINES}"):
    return rf"{begin}{WORD}|{digits}|{MARKS}{lines}"


def cased(end, but=""):
    big, small = (rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]", rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]")
    lead = r"[^\r\n\p{L}\p{N}]?"
    return f"{lead}{big}*{small}+{end}|{lead}{big}+{small}*{end}"


O200K = rf"{cased(ANY + '?')}|\p{{N}}{{1,3}}|{MARKS}[\r\n/]*|{LINES}"
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]\^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"| ?[\p{P}\p{S}]+")
KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
BLOOM = rf" ?[^({S}|.,!?…。，、।۔،)]+"
LETTERS = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
           "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
           "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
           "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
           "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
           "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102"
           "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
           "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
           "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
           "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
           "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
           "\U0001e900-\U0001e943")
ASIAN = ("\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
         "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff")
NO_HAN = r"&&[^\p{Han}]"
ZERO_WIDTH = "cut before: "

RULES = {
    "default": [r"[\p{P}$+<=>\^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "llama-bpe": [like_llama3(r"\p{N}{1,3}")],
    "qwen2": [like_llama3(r"\p{N}")],
    "qwen35": [rf"{ANY}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
               rf"| ?[^{S}\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{LINES}"],
    "ufakzeka": [like_llama3(r"\p{N}", begin="")],
    "seed-coder": [rf"{ANY}|{WORD}|\p{{N}}| ?[^{S}\p{{L}}\p{{N}}\r\n]+|{LINES}"],
    "bailingmoe": [rf"'(?i:[sdmt]|ll|ve|re)|{WORD}|\p{{N}}|{MARKS}[\r\n]*|{S}*[\r\n]|{SPACES}"],
    "laguna": [r"[^\n]+|[\n]+", like_llama3(r"\p{N}")],
    "minicpm5": [r"\p{N}{1,3}", like_llama3(r"\p{N}+")],
    "jais-2": [like_llama3(r"\p{N}{1,3}", lines=rf"[\r\n]*|{S}*[\r\n]+|" + "".join(
        rf"{S}{{{n}}}(?!{NOT_S})|" for n in ["512", "256", "128", "64", "32", "16", "8", "4", "1,2"]) + f"{S}{{1}}")],
    "smollm": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}$+<=>\^~|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-llm": [r"[\r\n]", rf"{S}?[{LETTERS}]+", rf"{S}?[!-/:-~！-／：-～‘-‟\u3000-。]+", rf"{S}+$", HANGUL,
                     r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", rf"{S}?\p{{L}}+", rf"{S}?\p{{P}}+", HANGUL, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", KANA, rf"{DEEPSEEK}[\r\n]*|{LINES}"],
    "spark2_5": [r"\p{N}{1,3}", KANA, rf"{DEEPSEEK}|[\r\n]|{SPACES}", r"\p{N}"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*+(?!\p{N}))", f"[{ASIAN}]+", rf"{DEEPSEEK}[\r\n]*|{LINES}"],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "tekken": [rf"{cased('')}|\p{{N}}|{MARKS}[\r\n/]*|{LINES}"],
    "gpt-4o": [O200K],
    "tiny_aya": [r"\p{Nd}{1,3}(?=(?:\p{Nd}{3})*+(?![\p{L}\p{M}\p{Nd}\p{Pc}]))", O200K],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
              rf"{cased(ANY + '?')}|\p{{N}}|{MARKS}[\r\n/]*|{LINES}"],
    "kimi-k2": [rf"[\p{{Han}}]+|{cased(ANY + '?', NO_HAN)}|\p{{N}}{{1,3}}|{MARKS}[\r\n]*|{LINES}"],
    "superbpe": [r"\p{N}+", ZERO_WIDTH + r"(?=(?:\p{Nd}{3})+(?!\p{Nd}))"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "gemma4": [r"[^\n]+|[\n]+"],
}

ALPHABET = [
    *"aZéßЖжñÆǅʰªªµ", *"日本語漢字かなカナ한글กไ", *"अनुच्छेद", "\u0301", "\u0308", "\u20dd", "\u0903",
    *"0123456789", *"٣४Ⅷ²½", *" \t\n\r", "  ", "    ", "\n\n", " \n", "\r\n", "\v", "\f", "\x85", "\xa0", "\u1680",
    "\u2003", "\u2028", "\u3000", "\u202f", "\u180e", "\u200b", "\u200d", "\x1c", "\x01", "\x7f", "\ufeff",
    *"'\"!?.,;:-_/\\()[]{}<>@#$%^&*+=|~`", *"’“”…—、。，！：；।۔،", "€", "∑", "😀", "👩‍👩‍👧", "🇩🇪",
    "'s", "'T", "'re", "'VE", "'m", "'ll", "'D", "'ſ", "’s", "I'm", "we'LL", "word", "Word", "WORD", "wordWord",
    "HTTPServer", "123", "1234567", "12,345.67", "<sentinel:12>", "IMGIMGABCZ", "IMGIMGZ", "中文", "ＡＢ", "ﬁ", "𐐀", "𠀀",
    "Ω", "µ", "ſ", "ὧ", "Ꭰ", "ﬀ", "〇", "々", "ー", "ㄅㄆ", "ㄱ", "ᄀ", "\u0e33", "¿", "№", "™",
]


def reference(stages, text):
    pieces = [text]
    for stage in stages:
        after = []
        for piece in pieces:
            at = 0
            if stage.startswith(ZERO_WIDTH):
                cuts = [(m.start(), m.start()) for m in regex.finditer(stage[len(ZERO_WIDTH):], piece, regex.V1)]
            else:
                cuts = [m.span() for m in regex.finditer(stage, piece, regex.V1)]
            for begin, end in cuts:
                after += [piece[at:begin], piece[begin:end]]
                at = end
            after.append(piece[at:])
        pieces = [p for p in after if p]
    return pieces


def cut(name, texts):
    run = subprocess.run([TOOL, name], input=b"".join(t.encode() + b"\0" for t in texts), stdout=subprocess.PIPE,
                         check=True, timeout=300)
    *lines, steps = run.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(texts)
    return lines, int(steps)


def texts(seed):
    rng = random.Random(seed)
    page = pages.text()
    made = ["".join(rng.choices(ALPHABET, k=rng.randrange(1, 40))) for _ in range(400)]
    made += ["".join(rng.choices(rng.sample(ALPHABET, 4), k=30)) for _ in range(400)]
    made += [" " * n + end for n in [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 100, 511, 512, 513, 1500] for end in ["", "x", "\n"]]
    made += ["7" * n + end for n in range(1, 12) for end in ["", "x", " ", "²", "."]]
    return made + [page[i:i + 700] for i in range(0, len(page), 700)]


def test_all_rules_are_compared():
    names = subprocess.run([TOOL], stdout=subprocess.PIPE, check=True).stdout.decode().split()
    assert sorted(names) == sorted(RULES)


@pytest.mark.parametrize("name", RULES)
def test_same_words(name):
    for text, line in zip(made := texts(name), cut(name, made)[0]):
        words, at, data = [], 0, text.encode()
        for n in map(int, line.split()):
            words.append(data[at:at + n].decode())
            at += n
        assert at == len(data)
        assert words == reference(RULES[name], text), repr(text)


LONG = ["a", "A", " ", "\n", "\t", " \n", "1", "12 ", "\u0301", "a\u0301", "'", "'s", "!", "…", "日", "日1", "\u3000", "ǅ",
        " \r", "\x85", "x\u2003", "<sentinel:1", "IMGIMGA", "Aa", "aA", "²", "\u200b", "/", " !"]


@pytest.mark.parametrize("name", RULES)
def test_work_grows_with_the_text_and_no_faster(name):
    """Of the longest runs, with what can end them: no character is looked at more than some times."""
    n = 1 << 14
    for unit in LONG:
        for end in ["", "x", "日", "1x", "!"]:
            text = unit * (n // len(unit)) + end
            _, steps = cut(name, [text])
            assert steps <= 32 * len(text), (unit, end, steps / len(text))

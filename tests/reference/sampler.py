"""What a request may draw from, by definition and in double precision: which tokens, and with which shares.

Each stage is the obvious loop over all that is left, sorted once: largest logit first, equals by their ids. A comparison
that the engine's 32-bit numbers may turn is reported: then the case is undecided.

Sources: llama.cpp's samplers (top_k, top_p, min_p, typical, XTC, top-n-sigma, temperature and its dynamic range, mirostat 2,
penalties in a window, DRY), vLLM's penalties (prompt and answer apart), bad words, allowed ids and minimum of tokens."""
import math

CLOSE = 2e-4    # relative, of two shares; shares below TINY are rounding
TINY = 1e-30
MAX_RUN = 50    # tokens that DRY looks back for one run
GREEDY = 1e-6   # temperatures below

OWN_ORDER = ["temperature", "top_k", "top_p", "min_p", "typical_p", "xtc"]


class Left:
    """Tokens that are left, best first, and whether every comparison so far was clear."""

    def __init__(self, logits, is_changed):
        self.tokens = sorted((-x, i) for i, x in enumerate(logits) if x > -math.inf)
        self.x = [-x for x, _ in self.tokens]  # after the temperatures so far
        self.ids = [i for _, i in self.tokens]
        self.is_changed = [is_changed[i] for i in self.ids]
        self.is_decided = True

    def shares(self):
        w = [math.exp(x - self.x[0]) for x in self.x]
        total = math.fsum(w)
        return [v / total for v in w]

    def compare(self, a, b):
        """Is a >= b?"""
        if abs(a - b) <= CLOSE * (abs(a) + abs(b)) + TINY:
            self.is_decided = False
        return a >= b

    def _check_edge(self, i):
        """Between the tokens i - 1 and i: are they in this order for sure?"""
        if 0 < i < len(self.x) and (self.is_changed[i - 1] or self.is_changed[i]):
            self.is_decided &= abs(self.x[i - 1] - self.x[i]) > 1e-4 * (1 + abs(self.x[i]))

    def keep(self, start, end):
        self._check_edge(start)
        self._check_edge(end)
        self.x, self.ids, self.is_changed = self.x[start:end], self.ids[start:end], self.is_changed[start:end]


def top_k(left, s):
    if s["top_k"] > 0:
        left.keep(0, s["top_k"])


def top_p(left, s):
    if s["top_p"] >= 1:
        return
    p, total, n = left.shares(), 0.0, 0
    while n < len(p) and (not left.compare(total, s["top_p"]) or n < s["min_keep"]):
        total += p[n]
        n += 1
    left.keep(0, n)


def min_p(left, s):
    if s["min_p"] <= 0:
        return
    p, n = left.shares(), 1
    while n < len(p) and (left.compare(p[n], s["min_p"] * p[0]) or n < s["min_keep"]):
        n += 1
    left.keep(0, n)


def typical_p(left, s):
    if not 0 < s["typical_p"] < 1:
        return
    p = left.shares()
    surprise = [left.x[0] - x for x in left.x]  # up to a constant
    mean = math.fsum(q * v for q, v in zip(p, surprise))
    high = 0
    while high < len(p) and surprise[high] < mean:
        high += 1
    if any(abs(v - mean) < 1e-5 * (1 + mean) for v in surprise) and len(set(surprise)) > 1:
        left.is_decided = False  # which side of the mean it is on
    low, total = high, 0.0
    while low == high or high - low < s["min_keep"] or not left.compare(total, s["typical_p"]):
        above = mean - surprise[low - 1] if low > 0 else math.inf
        below = surprise[high] - mean if high < len(p) else math.inf
        if above == below == math.inf:
            break
        if abs(above - below) < 1e-4 * (1 + abs(above)):
            left.is_decided = False
        if above <= below:
            low -= 1
            total += p[low]
        else:
            total += p[high]
            high += 1
    left.keep(low, high)


def top_n_sigma(left, s):
    if s["top_n_sigma"] <= 0:
        return
    mean = math.fsum(left.x) / len(left.x)
    sigma = math.sqrt(math.fsum((x - mean) ** 2 for x in left.x) / len(left.x))
    n = 1
    while n < len(left.x):
        far, most = left.x[0] - left.x[n], s["top_n_sigma"] * sigma
        if abs(far - most) < 1e-4 * (abs(far) + most):
            left.is_decided = left.is_decided and far == most == 0
        if far > most:
            break
        n += 1
    left.keep(0, n)


def xtc(left, s):
    """With the probability 0 or 1: the random numbers are the engine's."""
    if s["xtc_probability"] <= 0:
        return
    p, n = left.shares(), 0
    while n < len(p) and left.compare(p[n], s["xtc_threshold"]):
        n += 1
    if n >= 2 and len(p) - (n - 1) >= s["min_keep"]:
        left.keep(n - 1, len(p))


def temperature(left, s):
    t = s["temperature"]
    if s["dynatemp_range"] > 0:
        if len(left.x) < 2:
            return
        p = left.shares()
        evenness = -math.fsum(q * math.log(q) for q in p if q > 0) / math.log(len(p))
        low, high = max(0.0, t - s["dynatemp_range"]), t + s["dynatemp_range"]
        t = low + (high - low) * max(evenness, 0.0) ** s["dynatemp_exponent"]
        if t < 1e-2 or evenness < 1e-4:
            left.is_decided = False  # what is left of the others is rounding
            t = max(t, 1e-9)
    if t < GREEDY:
        left.keep(0, 1)
        return
    left.x = [x / t for x in left.x]


def mirostat(left, mu):
    p, n = left.shares(), 1
    while n < len(p) and left.compare(mu, -math.log2(max(p[n], 1e-300))):
        n += 1
    left.keep(0, n)


STAGES = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "typical_p": typical_p, "top_n_sigma": top_n_sigma, "xtc": xtc,
          "temperature": temperature, "none": lambda left, s: None}


# ---- changes to the logits ----

def repeated(x, s, in_text, count):
    if in_text:
        x = x / s["repetition_penalty"] if x > 0 else x * s["repetition_penalty"]
    if count > 0:
        x -= s["frequency_penalty"] * count + s["presence_penalty"]
    return x


def penalise(x, s):
    """Prompt and answer apart, as vLLM; or in a window in which they are the same, as llama.cpp."""
    history, n_prompt, window = s["history"], s["n_prompt"], s["penalty_last_n"]
    text = history[max(0, len(history) - window):] if window else history
    counted = text if window else history[n_prompt:]
    for i in set(text):
        x[i] = repeated(x[i], s, True, counted.count(i))


def dry(x, s):
    history, breakers = s["history"], set(s["dry_breakers"])
    text = history[max(0, len(history) - s["dry_last_n"]):]
    longest = {}
    for at in range(1, len(text)):
        n = 0
        while n < at and n < MAX_RUN and text[at - 1 - n] == text[-1 - n] and text[-1 - n] not in breakers:
            n += 1
        longest[text[at]] = max(longest.get(text[at], 0), n)
    for i, n in longest.items():
        if n >= s["dry_allowed_length"] and i not in breakers:
            x[i] -= min(s["dry_multiplier"] * s["dry_base"] ** (n - s["dry_allowed_length"]), 1e30)


def changed(s):
    x = [-math.inf if v is None else v for v in s["logits"]]
    for i, bias in s["bias"]:
        x[i] += bias
    penalise(x, s)
    if s["dry_multiplier"] > 0:
        dry(x, s)
    if s["allowed"] is not None:
        x = [v if i in s["allowed"] else -math.inf for i, v in enumerate(x)]
    for word in s["bad_words"] or []:
        if s["history"][len(s["history"]) - len(word) + 1:] == word[:-1] and len(s["history"]) >= len(word) - 1:
            x[word[-1]] = -math.inf
    if s["ban_eog"]:
        for i in s["eog"]:
            x[i] = -math.inf
    return x


def shares(s):
    """[(id, share)], best first, and whether that is decided."""
    x = changed(s)
    left = Left(x, [a != b for a, b in zip(x, s["logits"])])
    if not left.x:
        return None, False
    if s["temperature"] < GREEDY and s["dynatemp_range"] <= 0:
        left.keep(0, 1)
        return [(left.ids[0], 1.0)], left.is_decided
    stages = s["chain"] or OWN_ORDER
    if s["mirostat_tau"] > 0:
        stages = ["temperature"]
    for name in stages:
        STAGES[name](left, s)
    if s["mirostat_tau"] > 0:
        mirostat(left, s["mu"])
    return list(zip(left.ids, left.shares())), left.is_decided

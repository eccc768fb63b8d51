"""Real weights over HTTP: the text of an independent implementation, exactly."""
import pytest

FILES = ["stories260K.f16.gguf"]


@pytest.fixture(scope="module")
def stories(data):
    from quire import Server
    s = Server(model=data / "weights" / FILES[0])
    yield s
    s.stop()


def golden(data, name):
    """The reference prints a space before the text and ends it with line ends of its own."""
    text = (data / "weights" / name).read_text(encoding="utf-8")
    assert text.startswith(" ")
    return text[1:]


@pytest.mark.parametrize("k", [1, 2])
def test_prompt(stories, data, k):
    prompt = (data / "weights" / f"prompt{k}.txt").read_text(encoding="utf-8").rstrip("\n")
    expected = golden(data, f"prompt{k}.stories260K.greedy128.txt")
    text = prompt + stories.complete(prompt, max_tokens=128, temperature=0).text
    assert text == expected[:len(text)] and expected[len(text):].strip() == ""
    assert stories.stream(prompt, max_tokens=128, temperature=0, echo=True).text() == text


def test_empty_prompt(stories, data):
    expected = golden(data, "stories260K.greedy256.empty-prompt.txt")
    text = stories.complete("", max_tokens=256, temperature=0).text
    assert len(text) > 500
    assert text == expected[:len(text)] and expected[len(text):].strip() == ""


def test_the_same_in_a_crowd(stories, data):
    from quire import in_threads
    prompt = (data / "weights" / "prompt1.txt").read_text(encoding="utf-8").rstrip("\n")
    expected = golden(data, "prompt1.stories260K.greedy128.txt")
    jobs = [lambda: stories.complete(prompt, max_tokens=128, temperature=0).text for _ in range(24)]
    jobs += [lambda i=i: stories.complete("A %d" % i, max_tokens=60, seed=i).text for i in range(24)]
    for text in in_threads(jobs)[:24]:
        assert (prompt + text) == expected[:len(prompt + text)]

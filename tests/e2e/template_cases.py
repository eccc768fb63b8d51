"""Small templates, one feature or one oddity of the language each."""

CASES = [
    '{{ b is sameas(c) }} {{ none is sameas(none) }} {{ b is sameas(none) }} {% set l = [1] %}{{ l is sameas(l) }}',
    ('{{ 1 }} {{ 1.5 }} {{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1'
     'e-5 }} {{ 123456789.125 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }'
     '} {{ 0o17 }} {{ 1.0 }} {{ -0.0 }}'),
    ('{{ true }} {{ False }} {{ none }} {{ [1, 2.0, \'a\', "it\'s", n'
     'one, true, (1,), ()] }} {{ {\'a\': 1, "b": [1], 3: \'x\'} }}'),
    ('{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / '
     '2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 '
     '}} {{ 2 ** 0.5 }} {{ 1 / 3 }}'),
    ('{{ \'a\' ~ 1 ~ none ~ 1.5 }} {{ \'a\' \'b\' "c" }} {{ \'x\' * 3 }} {'
     '{ [1] * 2 + [3] }} {{ (1, 2) + (3,) }}'),
    ('{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ true == 1 '
     "}} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 in [1] }} {{ '"
     "b' not in 'abc' }} {{ 'a' in {'a': 1} }}"),
    ('{{ 1 if true else 2 }} {{ 1 if false }} {{ (1 if false) is d'
     "efined }} {{ 'x' if 0 else 'y' if 0 else 'z' }}"),
    "{{ not 1 }} {{ 1 and 2 }} {{ 0 or 'a' }} {{ not not 1 }} {{ 1 or 2 and 0 }}",
    ("{{ 'abcdef'[1:3] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-2:] }}"
     " {{ 'abcdef'[::2] }} {{ [1,2,3,4][1:-1] }} {{ [1,2,3,4][::-2"
     "] }} {{ 'añ日😀x'[1:4] }} {{ 'añ日😀x'[-2] }} {{ 'abc'[10:] }}|"),
    '{{ \'a\\nb\\t\\\\ \\x41 \\u00e9 \\U0001F600 \\101 \\\' \\" \\q \\é\' }}',
    ('{{ "%s-%d-%5.2f-%r-%x-%%" % (\'a\', 3, 2.5, \'q\', 255) }} {{ \'%'
     "s' % 5 }} {{ '%(a)s' % {'a': 1} }} {{ '%-5s|%5s|%05d|%+d' % "
     "('a','b',3,4) }}"),
    ("{{ '{} {}'.format(1, 'b') }} {{ '{0} {0!r} {a}'.format('x', "
     "a=2) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:,}|{:.2f}|{:x}|{:%}'."
     "format('a','b','c',3,1234567,2.5,255,0.5) }}"),
    ('{% for i in range(3) %}{{ loop.index }}{{ loop.first }}{{ lo'
     'op.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revind'
     'ex0 }}{{ loop.previtem }}{{ loop.nextitem }},{% endfor %}'),
    "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ a }}={{ b }};{% else %}none{% endfor %}",
    '{% for a in [] %}x{% else %}empty{% endfor %}',
    '{% for i in range(10) if i % 2 %}{{ i }}{{ loop.index }}{{ loop.length }} {% endfor %}',
    ('{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endi'
     'f %}{% if i == 6 %}{% break %}{% endif %}{{ i }}{% endfor %}'),
    '{% for i in [1,2] %}{% continue %}{% else %}else{% endfor %}',
    '{% for i in [1,2] %}{% break %}{% else %}else{% endfor %}',
    '{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = x + 10 %}{{ x }} {% endfor %}{{ x }}',
    ('{% set ns = namespace(a=1) %}{% for i in [1,2] %}{% set ns.a'
     ' = ns.a + i %}{% set ns.b = i %}{% endfor %}{{ ns.a }} {{ ns'
     '.b }} {{ ns }} {{ ns.c is defined }}'),
    '{% if false %}{% set y = 1 %}{% endif %}{{ y is defined }} {{ y }}',
    '{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set (c, (d, e)) = (1, (2, 3)) %}{{ c }}{{ d }}{{ e }}',
    ('{% set t %}abc {{ 1 + 1 }}{% endset %}{{ t }} {% set u | upp'
     "er | replace('B', 'x') %}abc{% endset %}{{ u }}"),
    '{% macro m(a, b=2, *c) %}{% endmacro %}',
    ('{% macro m(a, b=2) %}[{{ a }},{{ b }},{{ varargs }},{{ kwarg'
     's }}]{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}{{ m(1, 2, 3, x='
     '4) }}{{ m() }}'),
    ('{% macro m(a) %}{{ a }}{{ caller is defined }}{{ caller() if'
     ' caller is defined }}{% endmacro %}{{ m(1) }}{% call m(2) %}'
     'body{% endcall %}'),
    ('{% macro m() %}{% for i in [1,2] %}{{ caller(i) }}{% endfor '
     '%}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}'),
    '{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}',
    ('{% macro fact(n) %}{{ 1 if n <= 1 else n * fact(n - 1)|int }'
     '}{% endmacro %}{{ fact(5) }} {{ fact.name }} {{ fact }}'),
    ('{% filter upper %}abc {% if true %}def{% endif %}{% endfilte'
     "r %} {% filter replace('a', 'b')|upper %}aaa{% endfilter %}"),
    ('{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is de'
     'fined }} {% with %}{% set z = 5 %}{{ z }}{% endwith %}{{ z i'
     's defined }}'),
    ('{% for i in [[1,[2,3]],[4]] recursive %}{% if i is iterable '
     '%}({{ loop(i) }}){% else %}{{ i }}@{{ loop.depth }}{% endif '
     '%}{% endfor %}'),
    '{% raw %}{{ x }} {% if %}{% endraw %} {# comment #} x',
    ("{{ undefined_x }} {{ undefined_x|default('d') }} {{ undefine"
     'd_x is undefined }} {{ undefined_x|length }} {{ undefined_x '
     '== undefined_y }} {{ [undefined_x] }} {{ undefined_x|list }}'
     " {{ 'a' in undefined_x }}"),
    '{{ undefined_x.y }}',
    '{{ undefined_x + 1 }}',
    '{{ {}.x.y }}',
    ("{{ {}.x }} {{ {'items': 1}['items'] }} {{ {'a b': 1}['a b'] "
     "}} {{ [1,2].0 }} {{ 'x'.nope is defined }}"),
    ("{{ [3,1,2]|sort }} {{ ['b','A','c']|sort }} {{ ['b','A','c']"
     '|sort(case_sensitive=true) }} {{ [3,1,2]|sort(reverse=true) '
     "}} {{ [{'a':2},{'a':1}]|sort(attribute='a') }} {{ [1,'a']|so"
     'rt }}'),
    ("{{ {'b':1,'a':2}|dictsort }} {{ {'b':1,'a':2}|dictsort(by='v"
     "alue') }} {{ {'b':1,'a':2}|dictsort(false, 'key', true) }}"),
    ("{{ [1,2,3]|map('string')|join('-') }} {{ [{'a':1},{'a':2},{}"
     "]|map(attribute='a', default=0)|list }} {{ ['a','b']|map('up"
     "per')|list }} {{ ['aXb']|map('replace','X','-')|first }}"),
    ("{{ [1,2,3,4]|select('odd')|list }} {{ [1,2,3,4]|reject('odd'"
     ")|list }} {{ [{'r':'u'},{'r':'v'}]|selectattr('r','equalto',"
     "'u')|list }} {{ [{'r':1},{}]|selectattr('r')|list }} {{ [{'r"
     "':1},{}]|rejectattr('r','defined')|list }} {{ [0,1,'',2]|sel"
     'ect|list }}'),
    ("{{ [1,2,3]|sum }} {{ [1.5,2]|sum(start=1) }} {{ [{'a':1}]|su"
     "m('a') }} {{ [1,5,3]|max }} {{ [1,5,3]|min }} {{ []|max }} {"
     "{ ['b','A']|min }}"),
    ("{{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3,4,5]|batch(2,'x')|"
     'list }} {{ [1,2,3,4,5]|slice(2)|list }} {{ [1,2,3,4,5]|slice'
     "(3,'x')|list }}"),
    ("{{ [1,1,2,'a','A']|unique|list }} {{ [{'g':1,'v':2},{'g':0,'"
     "v':3},{'g':1,'v':4}]|groupby('g') }} {% for g, l in [{'g':'x"
     "'},{'g':'X'}]|groupby('g') %}{{ g }}{{ l|length }}{% endfor "
     '%}'),
    ("{{ 'hello world'|title }} {{ 'hello-world (x) foo'|title }} "
     "{{ 'HELLO'|capitalize }} {{ 'ß ŉ'|upper }} {{ 'ΑΣ'|lower }} "
     '{{ \'İ\'|lower|length }} {{ "they\'re bill\'s".title() }} {{ \'aB'
     "c'.swapcase() }}"),
    ("{{ ' x '|trim }}| {{ 'xxaxx'|trim('x') }} {{ 'a b  c'.split("
     ") }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {"
     "{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b '.split(none, 1) }} {{ "
     "' a b c '.rsplit(none, 1) }} {{ 'a\\nb\\r\\nc'.splitlines() }} "
     "{{ 'a\\nb\\n'.splitlines(true) }}"),
    ("{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x','c')) }}"
     " {{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'"
     ".find('x') }} {{ 'abcabc'.count('b') }} {{ 'abc'.replace('b'"
     ",'x') }} {{ 'aaa'.replace('a','b',2) }} {{ 'abc'.replace('',"
     "'-') }} {{ '-'.join(['a','b']) }} {{ 'a=b=c'.partition('=') "
     "}} {{ 'a=b=c'.rpartition('=') }} {{ 'ab'.zfill(5) }} {{ '-5'"
     ".zfill(5) }} {{ 'ab'.center(6,'*') }}|{{ 'ab'.ljust(4) }}|{{"
     " 'ab'.rjust(4) }}| {{ 'prefix_a'.removeprefix('prefix_') }} "
     "{{ 'a.b'.removesuffix('.b') }}"),
    ("{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'a1'.isalnum()"
     " }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower"
     "() }} {{ 'Ab Cd'.istitle() }} {{ '²'.isdigit() }} {{ '½'.isn"
     "umeric() }} {{ ''.isalpha() }} {{ 'é'.isascii() }}"),
    ("{{ {'a':1}.get('b') }} {{ {'a':1}.get('b', 5) }} {{ {'a':1}."
     "keys() }} {{ {'a':1}.values()|list }} {{ {'a':1}.items() }} "
     "{{ {'a':1}|items|list }} {{ {'a':1,'b':2}|list }} {{ {'a':1}"
     '|length }}'),
    ('{{ {\'a\':1}|tojson }} {{ [1,2.5,none,true,"é\\"\\n\\u0001\\x7f"]|'
     "tojson }} {{ {'b':1,'a':[1,{}],'c':[]}|tojson(indent=2) }} {"
     "{ {'b':1,'a':2}|tojson(sort_keys=true) }} {{ [1,2]|tojson(se"
     "parators=(',',':')) }} {{ 'é😀'|tojson(ensure_ascii=true) }} "
     '{{ {1:2, none:3, true:4, 1.5:5}|tojson }} {{ undefined_x|toj'
     'son }}'),
    ('{{ range(5)|list }} {{ range(5) }} {{ range(1,10,3)|list }} '
     '{{ range(5,0,-2)|list }} {{ range(3)[1] }} {{ range(10)[2:5]'
     ' }} {{ 3 in range(5) }} {{ range(5)|length }}'),
    ("{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ "
     'c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }} {% s'
     "et j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}"),
    "{{ dict(a=1, b=2) }} {{ dict([('a', 1)]) }} {{ dict({'x': 1}, y=2) }}",
    ('{{ 1 is number }} {{ true is number }} {{ true is integer }}'
     " {{ 1.0 is float }} {{ 'a' is string }} {{ {} is mapping }} "
     "{{ [] is sequence }} {{ 'a' is sequence }} {{ {} is iterable"
     ' }} {{ 5 is iterable }} {{ none is none }} {{ 4 is divisible'
     'by 2 }} {{ 4 is even }} {{ 1 is odd }} {{ 1 is eq 1 }} {{ 1 '
     "is lt 2 }} {{ 'a' is in ['a'] }} {{ 1 is not none }} {{ rang"
     "e is callable }} {{ 'upper' is filter }} {{ 'odd' is test }}"
     " {{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is sameas 1 }} {"
     '{ true is true }} {{ 1 is true }} {{ false is false }} {{ 1 '
     'is boolean }}'),
    ("{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1f'|int("
     "base=16) }} {{ '4.7'|int }} {{ 4.7|int }} {{ '1.5'|float }} "
     "{{ 'x'|float }} {{ ' 12 '|int }} {{ none|int }} {{ true|int "
     "}} {{ '1_000'|int }}"),
    ('{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 5|ro'
     "und }} {{ 42.55|round(1,'floor') }} {{ 42.51|round(0,'ceil')"
     ' }} {{ 1234|round(-2) }} {{ -5|abs }} {{ -5.5|abs }}'),
    ("{{ [1,2,3]|first }} {{ [1,2,3]|last }} {{ []|first }} {{ 'ab"
     "c'|first }} {{ 'abc'|last }} {{ 'abc'|reverse }} {{ [1,2]|re"
     "verse|list }} {{ 'abc'|list }} {{ [1,2]|join }} {{ [{'a':1},"
     "{'a':2}]|join(',', attribute='a') }}"),
    ("{{ 'a\\nb\\n\\nc'|indent }} {{ 'a\\nb'|indent(2, true) }} {{ 'a\\"
     "n\\nb'|indent(2, blank=true) }} {{ 'a\\nb'|indent('>>') }}"),
    ("{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|tru"
     "ncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'f"
     "oo bar baz qux'|truncate(11, false, '..', 0) }}"),
    ("{{ 'The quick brown fox-jumps over'|wordwrap(10) }} {{ 'aver"
     "yveryverylongword yes'|wordwrap(6) }} {{ 'a b c'|wordcount }"
     '} {{ 100|filesizeformat }} {{ 1500|filesizeformat }} {{ 1500'
     '000|filesizeformat(true) }} {{ 1|filesizeformat }}'),
    ('{{ \'<a&"\\\'>\'|e }} {{ \'<b>x</b> <!-- c --> y\'|striptags }} {{'
     " 'a b/é'|urlencode }} {{ {'a b': 1, 'c': 'd&'}|urlencode }} "
     "{{ {'a': '<', 'b': none}|xmlattr }} {{ '<a>'|safe ~ '<b>' }}"
     " {{ ('<a>'|safe) + '<b>' }} {{ '<a>'|e|e }} {{ '<a>'|e|force"
     'escape }}'),
    ("{{ '%s %s'|format('a', 1) }} {{ '%(x)s'|format(x=2) }} {{ 5|"
     "string ~ 'x' }} {{ 'ab'|center(6) }}| {{ 'a'|attr('upper') i"
     "s defined }} {{ {'a':1}|attr('a') is defined }}"),
    "{{ raise_exception('boom') }}",
    "{{ strftime_now('%Y-%m-%d %H:%M') }}",
    '{% generation %}abc{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}',
    '{{ [].append(1) }} {% set l = [1] %}{% set m = l.copy() %}{% set n = l %}{% set _ = l.append(l | length) %}'
    '{{ l }}{{ m }}{{ n }}{{ l | list == l }}{% for x in l %}{% if x < 4 %}{{ l.append(x + 3) }}{% endif %}{{ x }}'
    '{% endfor %}{{ l }}',
    '{% set ns = namespace(ids=[]) %}{% for i in [3, 4] %}{% set _ = ns.ids.append("id" ~ i) %}{% endfor %}{{ ns.ids }}',
    "{{ [1, 2] | map('string') | tojson }} {{ [{'a': 1}] | map(attribute='a') | tojson(indent=2) }}",
    '{% set l = [1, 2, 3, 4] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}{{ l.pop(-2) }}{{ l }}{{ l.pop(true) if l | length > 1 }}',
    '{{ [].pop() }}', '{{ [1].pop(1) }}', "{{ [1].pop('a') }}", '{% set l = [1, 2, 3, 4, 5] %}{% for x in l %}{{ x }}{{ l.pop() }}'
    '{{ loop.index }}{% endfor %}{{ l }}',
    '{{ [1].insert(0, 1) }}', '{{ [1].append() }}', '{{ (1,).append(2) }}', '{% set l = [] %}{{ l.append(1, 2) }}',
    '{{ {}.update({}) }}',
    "{{ [].append is defined }} {{ 'a'.__class__ is defined }} {{ ''.__class__ }} {{ [].extend }}",
    '{% for i in 5 %}{% endfor %}',
    "{{ 1 + 'a' }}",
    "{{ 'a' + 1 }}",
    '{{ 1 / 0 }}',
    '{{ 1 % 0 }}',
    '{% set x = 5 %}{% set x.y = 3 %}',
    '{{ x|nofilter }}',
    '{% if false %}{{ x|nofilter }}{% endif %}ok',
    '{% if true %}{{ x|nofilter }}{% endif %}ok',
    "{% include 'a' %}",
    '{% if true -%}   a   {%- endif %}  b',
    '  {% if true %}',
    '  text',
    '    {% endif %}',
    ' x  {%+ if true %}y{% endif +%}',
    'z',
    "{{- 'a' -}}   b   {{ 'c' }}",
    '  {# comment #}',
    '   {#- c -#}   d',
    "{% print 1, 'a' %}",
    "{% for a in 'añ😀' %}{{ a }}|{{ loop.index }} {% endfor %}",
    ('{{ loop is defined }}{% for i in [1] %}{% for j in [1,2] %}{'
     '{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}'),
    '{% set m = 1 %}{% macro f() %}{{ m }}{% endmacro %}{% set m = 2 %}{{ f() }}',
    "{% for x in [1,2,3] %}{{ loop.cycle('a','b') }}{{ loop.changed(x > 1) }} {% endfor %}",
    "{{ 'abc' is string and 1 is number or false }} {{ 1 is not string and true }}",
    ('{{ -5 ** 2 }} {{ 2 ** 3 ** 2 }} {{ -2|abs }} {{ (-2)|abs }} '
     "{{ 10 - 2 - 3 }} {{ 2 + 3 * 4 ~ 'x' }}"),
    ("{{ [1,2,3][5] is defined }} {{ [1,2,3][-1] }} {{ 'abc'[0] }}"
     " {{ {'a':{'b':1}}['a']['b'] }} {{ {'a':{'b':[1,2]}}.a.b.1 }}"),
    "{{ x.y.z if x is defined else 'no' }} {{ (x or {}).y }} {{ ({}).get('a', {}).get('b') }}",
    '{{ 1000000000000 * 1000000 }} {{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}',
    ("{{ 'a' * 0 }}|{{ 3 * 'ab' }} {{ [] + [] }} {{ true + true }}"
     ' {{ -true }} {{ 1.5 * 2 }} {{ 3.0 // 1 }} {{ 1e300 * 1e10 }}'),
    '{{ "a" "b" ~ \'c\' }} {{ \'é\' < \'z\' }} {{ \'Z\' < \'a\' }} {{ \'😀\' > \'\\uffff\' }}',
    ("{{ f(*[1,2], **{'a': 3}) if f is defined else 'nof' }} {{ di"
     "ct(**{'a': 1}) }} {{ range(*[1, 4])|list }}"),
    "{{ ({'a':1}).items()|list|tojson }} {{ (1,2)|tojson }} {{ 'a'|tojson|length }}",
    "{{ [[1,2],[3]]|sum(start=[]) }} {{ ['a']|sum(start='') }}",
    ("{{ {'x': 1, 'x': 2} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }} {"
     '{ {(1,2): 3}[(1,2)] }} {{ {[1]: 2} }}'),
    ('{{ "\\u2028x"|tojson }} {{ \'tab\\tq\'|tojson }} {{ \'\\x00\'|tojso'
     "n }} {{ 'a\\x00b'|length }}"),
    "{{ 'x'.join('abc') }} {{ ''.join([]) }} {{ 'x'.join([1]) }}",
    ("{{ 'abc'|replace('b', 5) }} {{ 123|replace(2, 'x') }} {{ non"
     'e|string }} {{ none|upper }} {{ 5|length }}'),
    'a\n{% if true %}\n  b\n{% endif %}\nc\n',
    '  {% if true %}  \n x {% endif %}\n',
    '{% raw %}\n a\n{% endraw %}\nb',
    'a  {%- raw -%}  b  {%- endraw -%}  c',
    '\n\nx\n\n',
    'a\r\nb\rc\n',
    "{{ 'a\r\nb' }}",
    '   {{ 1 }}\n   {% set a = 1 %}\n   {{ a }}\n',
    '{#- a -#}\n\n b',
    'x {# a #}\ny',
    '  {# a #}\ny',
    '{% set a %}\n x\n{% endset %}[{{ a }}]',
    '{{ 1\n+\n2 }}',
    '{%- for i in [1,2] -%}\n {{ i }}\n{%- endfor %}\n',
    '{%- for i in [1,2] +%}\n {{ i }}\n{%- endfor +%}\nx',
    '  {%+ set a = 1 %}\nx',
    '{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}',
    '{{ a',
    '{% if %}',
    '{{ }}',
    '{{ 1 2 }}',
    '{% endif %}',
    '{% for %}',
    "{{ 'abc }}",
    '{{ (1 }}',
    '{{ [1) }}',
    '{% foo %}',
    '{{ 1 + }}',
    '{% set 1 = 2 %}',
    '{% set x %}',
    '{# abc',
    '{% raw %}abc',
    '{{ a.1b }}',
    "{{ 'a'.b.c }}",
    '{{ x is }}',
    '{{ x | }}',
    '{{ 1 if }}',
    '{% break %}',
    '{% for i in x %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}',
    '{% for loop in [1] %}{% endfor %}',
    '{% for i in [1] %}{% set loop = 1 %}{% endfor %}',
    '{{ $ }}',
    '{{ a b }}',
    '{% macro m(a=1, b) %}{% endmacro %}',
    '{{ f(a=1, 2) }}',
    '{{ f(a=1, a=2) }}',
    '{{ {1,2} }}',
    '{% if a = 1 %}{% endif %}',
    '{{ not }}',
    '{{ a..b }}',
    '{{ [1,,2] }}',
    '{% call 5 %}{% endcall %}',
    ("{% set x = 'g' %}{% for i in [1] %}{% if false %}{% set x = "
     '1 %}{% endif %}{{ x }}{% endfor %}'),
    '{% for i in [1,2] %}{{ v }}{% set v = i %}{{ v }}{% endfor %}{{ v }}',
    '{% if true %}{% set v = 1 %}{% else %}{% set w = 2 %}{% endif %}{{ v }}{{ w is defined }}',
    '{% macro m() %}{{ v }}{% endmacro %}{{ m() }}{% set v = 3 %}{{ m() }}',
    '{% for i in [1,2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}',
    '{% for i in [1,2,3] %}{{ loop.nextitem }}{{ loop.length }}{{ loop.last }},{% endfor %}',
    ("{% for i in [1,2,3]|map('abs') %}{{ loop.nextitem }}{{ loop."
     'length }}{{ loop.last }}{{ loop.revindex }},{% endfor %}'),
    "{% set g = [1,2,3]|map('abs') %}{{ g|list }}{{ g|list }}{{ 'x' if g }}",
    '{% for a in range(4) %}{% for b in loop %}{{ b }}{% break %}{% endfor %}{% endfor %}',
    ('{% for x in [1,2] %}{% set outer = loop %}{% for y in [3] %}'
     '{{ outer.index }}{{ loop.index }}{% endfor %}{% endfor %}'),
    '{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}',
    '{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}',
    ('{% macro a(x) %}<{{ x }}{{ caller() }}>{% endmacro %}{% call'
     ' a(1) %}{% call a(2) %}z{% endcall %}{% endcall %}'),
    ('{% macro m(x) %}{{ kwargs.y }}{{ varargs|length }}{% endmacr'
     'o %}{{ m(1, 2, 3, y=4) }}{{ m(x=1) }}{{ m(*[1,2]) }}{{ m(**{'
     "'x': 1, 'y': 2}) }}"),
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}{{ ns.x is defined }}",
    '{% filter indent(2, true) %}a\nb{% endfilter %}',
    '{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}',
    ('{% for i in [1,2,3] %}{% filter upper %}a{% if i == 2 %}{% c'
     'ontinue %}{% endif %}{% endfilter %}{{ i }}{% endfor %}'),
    ('{% for i in [3,1] recursive %}{{ i }}{% if i == 3 %}{{ loop('
     '[4, 5]) }}{% endif %}{{ loop.depth0 }}{% else %}none{% endfo'
     'r %}'),
    ("{{ ('a', 'b') in [('a', 'b')] }}{{ [1, [2]] == [1, [2]] }}{{"
     " {'a': 1} == {'a': 1.0} }}{{ (1,) == [1] }}{{ none == false "
     '}}'),
    "{{ 'x'|default('y')|upper ~ 1 + 2 }}",
    "{{ -1|abs }} {{ 2 * -3 }} {{ 'a' ~ -1 }} {{ not 1 == 2 }} {{ 1 is number == true }}",
    "{{ x if x is defined and x else 'd' }}{{ 1 if none else 2 if false else 3 }}",
    ("{{ '%s' % ('a',) }}{{ '%s %s' % ('a', 'b') }}{{ '%d%%' % 5 }"
     "}{{ '%5.1f|%-6s|%06.2f' % (2.25, 'a', 3.14159) }}"),
    "{{ [1, 2, 3, 4]|batch(3, 0)|map('join', '-')|join('/') }}",
    ("{{ 'ÀÉ'.lower() }}{{ 'straße'.upper() }}{{ 'ǆ'.title() }}{{ "
     "'ὈΔΥΣΣΕΎΣ'.lower() }}{{ 'ﬁx'.capitalize() }}{{ 'ß'.casefold("
     ') }}'),
    "{{ '\\u2003x\\u00a0'.strip() }}|{{ 'a\\x1cb\\u2028c'.splitlines() }}{{ 'a\\u3000b'.split() }}",
    "{{ ['é', 'z', 'a', 'Z', 'É']|sort }}{{ ['é', 'É']|unique|list }}",
    ('{{ 1e22 }} {{ 1.7976931348623157e308 }} {{ 5e-324 }} {{ 1234'
     '56.789e3 }} {{ 100000000000000000.0 }} {{ 0.1|tojson }} {{ 1'
     'e100|tojson }}'),
    "{{ {'a': {'b': [1, {'c': 'é'}]}}|tojson(indent=4) }}",
    "{{ {'a': []}|tojson(indent='--') }}",
    '{{ [1,[2]]|tojson(indent=0) }}',
    "{{ true|tojson }}{{ none|tojson }}{{ (1, 'a')|tojson }}{{ range(2)|tojson }}",
    ("{{ {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true, in"
     "dent=1, separators=('; ', '=')) }}"),
    ("{{ [1,2,3]|select('>', 1)|list }}{{ [1,2,3]|reject('in', [1,"
     " 2])|list }}{{ ['a', 1]|select('string')|list }}"),
    ("{{ 'abc' is in 'xabcx' }}{{ 3 is divisibleby(3) }}{{ 3 is di"
     "visibleby 2 }}{{ 'a' is sameas 'a' }}{{ [] is sameas [] }}"),
    ('{{ dict(a=1).items()|list }}{{ dict(a=1)|items|list }}{{ {}|'
     'items|list }}{{ undefined_x|items|list }}{{ 5|items|list }}'),
    '{% set a = b = 1 %}',
    '{% for a, b in [(1, 2, 3)] %}{% endfor %}',
    "{% set a, b = 'xy' %}{{ b }}{{ a }}",
    '{% set a, b = 1 %}',
    "{{ ''.join(['a', 'b'])|replace('a', '')|length }}",
    "{{ [[1, 2], [3]]|map('sum')|list }}{{ [[1, 2], [3]]|map('first')|list }}",
    ("{{ 'a-b_c d'|title }}{{ 'x'|center(5) }}|{{ 'é'|center(4) }}"
     "|{{ 'ab'.center(5, '*') }}{{ 'ab'.center(4, '*') }}"),
    ("{{ 5|string|length }}{{ 3.0|int }}{{ '3.9'|float|int }}{{ '1"
     "e3'|float }}{{ 'inf'|float }}{{ 'nan'|float }}{{ ' -5 '|int "
     "}}{{ '٣'|int }}"),
    ('{{ 2.5|round|int }}{{ 0.5|round }}{{ 1.5|round }}{{ 2.345|ro'
     'und(2) }}{{ 15|round(-1) }}{{ 25|round(-1) }}{{ 1.005|round('
     '2) }}{{ 12.5|round(-1) }}'),
    ("{%- set role = {'user': 'U', 'bot': 'B'} -%}{{ role['user'] "
     "}}{{ role.bot }}{{ role.get('x', '?') }}{{ role['x'] }}"),
    '{{ caller }}{{ varargs }}{{ kwargs }}',
    '{{ none.x }}',
    '{{ none.x.y }}',
    '{{ 5.x }}',
    "{{ 'a'[5] }}{{ [1]['a'] }}{{ {}[0] }}",
    ("{{ [1,2,3][1:][0] }}{{ 'hello'[1:3]|upper }}{{ messages[1:] "
     "if messages is defined else 'm' }}{{ (1,2,3)[::2] }}{{ range"
     '(9)[::3]|list }}{{ [1,2][-9:9] }}'),
    ("{{ '{0:>6.2f}|{1:<4}|{2:^5}|{name}'.format(3.14159, 'a', 'b'"
     ", name='n') }}{{ '{:,}'.format(1234567.5) }}{{ '{:+d} {:x} {"
     ":#o} {:08b}'.format(5, 255, 8, 5) }}"),
    "{{ 'a' if true }}{{ ('b' if false)|default('c') }}{{ ('x' if false) ~ 'y' }}",
    "{{ 1 in (1, 2) }}{{ 'k' in {'k': 0} }}{{ 2 in range(1, 5, 2) }}{{ 'a' in 5 }}",
    '{{ [] in {} }}',
    "{{ 1 in 'abc' }}",
    ("{{ {'a': 1}|dictsort }}{{ {'B': 1, 'a': 2, 'C': 3}|dictsort("
     "true) }}{{ {2: 1, 'a': 2}|dictsort }}"),
    ("{{ 'line1\nline2\n'|wordwrap(3) }}{{ 'mother-in-law well-known"
     " a--b'|wordwrap(8) }}{{ 'abc def'|wordwrap(0) }}"),
    ("{{ '<p>a &amp; b</p>'|striptags }}{{ '&lt;'|e }}{{ ('a' ~ '<"
     "')|e|length }}{{ '<'|escape is escaped }}"),
    'a{% raw -%}  b  {%- endraw %}c',
    '{% raw %}{% raw %}{% endraw %}',
    '{{ \'{% x %}\' }}{{ "}}" }}',
    "{{ {'a':{'b':{}}} }}",
    "{{{'a':1}['a']}}",
    "{% if 1 %}{{ 'a' }}{% endif %}{# {{ x }} #}b",
    '{#{#}x',
    '{{-1}}{{- 1 -}} x',
    '{{ 1-1 }}{{ 1 -1 }}{{ -1 }}',
    '%} }} #} {',
    '{ % if %}',
    '{',
    '{%',
    '{{',
    '{#',
    'x{',
    '{%- -%}',
    '{% if true%}a{%endif%}b',
    '\n\n{% if true %}\n\n{% endif %}\n\n',
    '\t {% if true %} \t\n\t{% endif %}\t',
    'a {# b #} c\n  {# d #}  \n e',
    '  {{ 1 }}  \n  {%- set a = 1 %}  \n x',
    '\x0b{% set a = 1 %}x',
    '\xa0{% set a = 1 %}x',
    '\u2003{%- set a = 1 -%}\u2003x',
]

// torch's headers ask for this file; its types are for nvcc.
#pragma once
